"""A hundred scale-outs under traffic, some in the most awkward moments: does any request suffer?

How fast one is on a quiet cluster is measured by `promotion`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack

from bench.promotion import model_with_pool, percentiles
from support import operator
from support.api import Api, JsonObject
from support.endpoints import EndpointWatch
from support.models import ModelView
from support.promotion import (
    LIMIT_S,
    QUIET_S,
    SLOW_S,
    Churn,
    RoleWatch,
    scale,
    staying,
    wait_settled,
)
from support.traffic import Traffic

# Each round scales out every pool, so these are 102 scale-outs.
POOLS = 3
ROUNDS = 34
#: The writes of a round come within a second, and a restart begins within this many. The old
#: operator then takes a write, or the new one does, or one the write and the other the refilling.
SPREAD_S = 1.5


def while_endpoints_churn(api: Api, namespace: str) -> JsonObject:
    """Those of another Service; the pools' own too, as they are scaled together."""
    with Churn(api, namespace):
        return _series(api, namespace, undisturbed())


def while_the_operator_restarts(api: Api, namespace: str) -> JsonObject:
    """In each round, at a moment left to chance."""
    return _series(api, namespace, restarting(api))


def undisturbed() -> Iterator[AbstractContextManager[None]]:
    """One context a round."""
    while True:
        yield ExitStack()


def restarting(api: Api) -> Iterator[AbstractContextManager[None]]:
    """One context a round, left when the new operator is ready."""
    chance = random.Random(6)
    while True:
        yield operator.restarted(api, chance.uniform(0, SPREAD_S))


def _series(
    api: Api, namespace: str, rounds: Iterator[AbstractContextManager[object]]
) -> JsonObject:
    """Seconds from the write to the pod's endpoint, by percentile, and what became of the requests
    meanwhile."""
    chance = random.Random(7)
    pools = [_Pool(api, model_with_pool(api, namespace, f"pool-{i}")) for i in range(POOLS)]
    found: list[float] = []
    with ExitStack() as stack:
        traffic = [stack.enter_context(pool.traffic()) for pool in pools]
        executor = stack.enter_context(ThreadPoolExecutor(POOLS))
        for _ in range(ROUNDS):
            time.sleep(QUIET_S)
            with next(rounds):
                found += executor.map(_Pool.scale_out, pools, [chance.random() for _ in pools])
            list(executor.map(_Pool.refilled, pools))
    return {
        "endpoint": percentiles(found),
        "requests": sum(each.succeeded for each in traffic),
        "failed_or_slow": [failure for each in traffic for failure in each.failures],
    }


class _Pool:
    """One model that serves with one pod and keeps one waiting."""

    def __init__(self, api: Api, view: ModelView) -> None:
        self._api = api
        self._view = view
        self._roles = RoleWatch(api, view.namespace)
        self._endpoints = EndpointWatch(api, view, timeout_s=3600)

    def traffic(self) -> Traffic:
        return Traffic(self._view.service_url(), self._view.name, timeout_s=SLOW_S)

    def scale_out(self, after_s: float) -> float:
        time.sleep(after_s)
        (spare,) = staying(self._view, "standby")
        written = scale(self._api, self._view, 2)
        self._roles.wait_for(spare["metadata"]["name"])
        address = spare["status"]["podIP"]
        return self._endpoints.wait_for(address, ready=True, timeout_s=LIMIT_S) - written

    def refilled(self) -> None:
        """And back to where it was."""
        wait_settled(self._view, 2, 1)
        scale(self._api, self._view, 1)
        wait_settled(self._view, 1, 1)
