"""The standby pool: scale-out by a label, scale-in without a cut, a successor for a dead engine."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import requests

from support import operator
from support.api import Api, JsonObject
from support.endpoints import EndpointWatch
from support.models import ModelView, warm_model, with_engine
from support.node import Node, kill
from support.promotion import (
    QUIET_S,
    SLOW_S,
    Churn,
    RoleWatch,
    promote,
    scale,
    staying,
    wait_settled,
)
from support.traffic import Traffic, complete
from support.waiting import wait_until

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]

# Each one refills the pool with a new pod and lets another one go, which takes about 17 s.
# `make bench` makes a hundred of each kind, and has the times.
SCALE_OUTS = 3
RESTARTS = 3


@pytest.fixture
def pooled(create: Create, namespace: str) -> ModelView:
    """One pod serves, one waits."""
    view = create(warm_model("pooled", namespace, standby={"replicas": 1}))
    wait_settled(view, 1, 1)
    tell_apart(view)
    return view


def tell_apart(view: ModelView) -> None:
    """Engines are known by the second in which they started, and the first two may share it."""
    (spare,) = staying(view, "standby")
    view.api.delete("Pod", spare["metadata"]["name"], view.namespace)
    wait_until(
        "another pod waits",
        lambda: [
            pod
            for pod in staying(view, "standby")
            if pod["metadata"]["uid"] != spare["metadata"]["uid"]
        ],
        timeout_s=120,
    )
    wait_settled(view, 1, 1)


@pytest.mark.parametrize("churning", [False, True], ids=["quiet", "churning"])
def test_scale_outs(api: Api, pooled: ModelView, churning: bool) -> None:
    roles = RoleWatch(api, pooled.namespace)
    endpoints = EndpointWatch(api, pooled, timeout_s=3600)
    around: AbstractContextManager[object] = (
        Churn(api, pooled.namespace) if churning else nullcontext()
    )
    with around, Traffic(pooled.service_url(), pooled.name, timeout_s=SLOW_S) as traffic:
        for _ in range(SCALE_OUTS):
            time.sleep(QUIET_S)
            promote(api, pooled, roles, endpoints, 2)
            wait_settled(pooled, 2, 1)  # it is refilled
            scale(api, pooled, 1)
            wait_settled(pooled, 1, 1)
    assert traffic.failures == []


def test_scale_outs_while_the_operator_restarts(api: Api, pooled: ModelView) -> None:
    """At a moment of each that is left to chance."""
    chance = random.Random(6)
    with Traffic(pooled.service_url(), pooled.name, timeout_s=SLOW_S) as traffic:
        for _ in range(RESTARTS):
            for replicas in (2, 1):
                with operator.restarted(api, chance.uniform(0, 1.5)):
                    scale(api, pooled, replicas)
                wait_settled(pooled, replicas, 1)
    assert traffic.failures == []


def test_to_zero_and_back_the_pool_stays(api: Api, pooled: ModelView) -> None:
    scale(api, pooled, 0)
    wait_settled(pooled, 0, 1)
    scale(api, pooled, 1)
    wait_until("the pool answers", lambda: answers(pooled), timeout_s=10)
    wait_settled(pooled, 1, 1)


def test_scale_in_cuts_no_stream(create: Create, namespace: str, api: Api) -> None:
    model = with_engine(warm_model("streams", namespace, replicas=2), sim={"token_seconds": 0.05})
    view = create(model)
    view.wait_ready()
    streams = [Stream(view) for _ in range(8)]
    for stream in streams:
        stream.start()
    wait_until("all streams run", lambda: all(s.chunks for s in streams), timeout_s=30)
    scale(api, view, 1)
    wait_until("one serves", lambda: len(staying(view, "serving")) == 1, timeout_s=10)
    for stream in streams:
        stream.join(timeout=120)
    assert [stream.error for stream in streams] == [""] * len(streams)
    wait_until("the other one goes", lambda: len(view.engine_pods()) == 1, timeout_s=240)


def test_a_standby_pod_takes_over_from_a_dead_engine(
    api: Api, node: Node, pooled: ModelView
) -> None:
    (serving,), (spare,) = staying(pooled, "serving"), staying(pooled, "standby")
    endpoints = EndpointWatch(api, pooled)
    endpoints.wait_for_lasting(serving["status"]["podIP"], seconds=QUIET_S, timeout_s=60)
    kill(node.engine_main(serving["metadata"]["uid"]))
    endpoints.wait_for(spare["status"]["podIP"], ready=True, timeout_s=10)
    wait_until("the other one answers", lambda: answers(pooled), timeout_s=10)
    wait_settled(pooled, 1, 1)
    (after,) = staying(pooled, "standby")
    assert after["metadata"]["uid"] == serving["metadata"]["uid"], "it came back in place"


def test_with_the_operator_away_every_warm_pod_serves(
    api: Api, pooled: ModelView, operator_away: Callable[[], AbstractContextManager[None]]
) -> None:
    with operator_away():
        for pod in pooled.engine_pods():
            api.delete("Pod", pod["metadata"]["name"], pooled.namespace)
        wait_until("both new ones serve", lambda: len(pooled.ready_addresses()) == 2, timeout_s=180)
    wait_settled(pooled, 1, 1)


class Stream(threading.Thread):
    """One streamed answer of about ten seconds, read to its end."""

    def __init__(self, view: ModelView) -> None:
        super().__init__(daemon=True)
        self._url, self._model = view.service_url(), view.name
        self.chunks = 0
        self.error = "it did not end"

    def run(self) -> None:
        body = {"model": self._model, "prompt": "Hello", "max_tokens": 200, "stream": True}
        try:
            self.error = "" if self._read(body) else "cut"
        except requests.RequestException as error:
            self.error = repr(error)

    def _read(self, body: JsonObject) -> bool:
        with requests.Session() as session:
            session.trust_env = False  # no proxy between the tests and the cluster
            with session.post(
                f"{self._url}/v1/completions", json=body, stream=True, timeout=60
            ) as response:
                for line in response.iter_lines(chunk_size=None):
                    self.chunks += line.startswith(b"data: {")
                    if line == b"data: [DONE]":
                        return True
        return False


def answers(view: ModelView) -> bool:
    try:
        return bool(complete(view.service_url(), view.name, timeout_s=2))
    except requests.RequestException:
        return False
