"""Writing roles: at once, with preconditions, promotions first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from unit.controller.builders import NAMESPACE, NOW, PodWrapper, engine
from unit.controller.fake_kube import FakeKube
from unit.controller.pool.test_decision import CURRENT, situation
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.apiserver.kube import ApiError
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.views import PodView
from warmpod.controller.pool import RoleChange, decide
from warmpod.controller.pool.roles import Assigned, Roles
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.controller.telling.metrics import Metrics
from warmpod.resources.names import ROLE_LABEL


class Bench:
    def __init__(self, *pods: PodWrapper) -> None:
        self.kube = FakeKube()
        self.cache = Cache()
        kube: Any = self.kube
        self.roles = Roles(kube, self.cache, Metrics(CollectorRegistry(), self.cache))
        self.names = [pod.name for pod in pods]
        for pod in pods:
            self.cache.upsert(POD, self.kube.put(pod.of(CURRENT).body()))

    def known(self, name: str) -> PodView | None:
        found = self.cache.get(POD, (NAMESPACE, name))
        assert found is None or isinstance(found, PodView)
        return found

    def changes(self, serving: int) -> tuple[RoleChange, ...]:
        views = tuple(view for name in self.names if (view := self.known(name)))
        return decide(replace(situation([], serving), pods=views)).changes

    def role(self, name: str) -> str:
        stored = self.kube.find(POD, name)
        assert stored is not None
        return str(stored["metadata"]["labels"][ROLE_LABEL])


def dead(name: str) -> PodWrapper:
    return engine(name).not_warm("EngineDied")


async def test_the_cache_knows_what_was_written() -> None:
    bench = Bench(dead("a"), engine("b").warm().standby(demoted_at="2030-01-01T11:00:00Z"))
    changes = bench.changes(1)
    assert (await bench.roles.apply(changes)).done == changes
    assert [name for verb, _, name in bench.kube.calls] == ["b", "a"], "promotions first"
    promoted = bench.known("b")
    assert promoted is not None
    assert promoted.meta.labels[ROLE_LABEL] == "serving"
    assert promoted.meta.annotations == {
        "controller.kubernetes.io/pod-deletion-cost": "1",
        "warmpod.io/promoted-from": "Awake",
        "warmpod.io/promoted-at": NOW.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    assert not bench.changes(1)


async def test_a_pod_that_changed_meanwhile_is_looked_at_again() -> None:
    bench = Bench(engine("a").warm(), engine("b").warm().standby())
    changes = bench.changes(2)
    bench.kube.put(dead("b").standby().of(CURRENT).body())
    assert await bench.roles.apply(changes) == Assigned()
    assert bench.role("b") == "standby"
    known = bench.known("b")
    assert known is not None
    assert not known.is_true("Ready"), "the cache knows better now"


async def test_a_pod_that_is_gone_is_forgotten() -> None:
    bench = Bench(engine("b").warm().standby())
    changes = bench.changes(1)
    del bench.kube.objects[(POD, NAMESPACE, "b")]
    assert await bench.roles.apply(changes) == Assigned()
    assert bench.known("b") is None


async def test_one_that_fails_does_not_keep_the_others_from_it() -> None:
    bench = Bench(engine("a").warm().standby(), engine("b").warm().standby())
    bench.kube.fail("merge", "Pod", ApiError(500, "InternalError", "x"))
    with pytest.raises(ApiError):
        await bench.roles.apply(bench.changes(2))
    assert [bench.role("a"), bench.role("b")] == ["standby", "serving"]


async def test_a_busy_server_is_asked_later() -> None:
    bench = Bench(engine("a").warm().standby())
    bench.kube.fail("merge", "Pod", ApiError(429, "TooManyRequests", "x", retry_after=3))
    with pytest.raises(RetryLater) as raised:
        await bench.roles.apply(bench.changes(1))
    assert raised.value.delay == 3


async def test_a_pod_that_may_not_be_written_is_named() -> None:
    bench = Bench(engine("a").warm().standby())
    bench.kube.fail("merge", "Pod", ApiError(403, "Forbidden", "admission webhook says no"))
    (failure,) = (await bench.roles.apply(bench.changes(1))).failures
    assert failure.object == "Pod models/a"
    assert failure.message == "admission webhook says no"
