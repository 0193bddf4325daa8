"""Writes to pods: the gate, the label, and the deletion."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from unit.controller.builders import NAMESPACE, PodWrapper, engine, prefetch
from unit.controller.fake_kube import FakeKube
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.apiserver.kube import ApiError
from warmpod.controller.nodes.actions import NodeActions
from warmpod.controller.nodes.pods import PodChanges
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.views import PodView
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.controller.telling.metrics import Metrics


class World:
    def __init__(self) -> None:
        self.kube: Any = FakeKube()
        self.cache = Cache()
        self.actions = NodeActions(self.kube, self.cache, Metrics(CollectorRegistry(), self.cache))

    def pod(self, pod: PodWrapper) -> PodView:
        body = self.kube.put(pod.body())
        self.cache.upsert(POD, body)
        return self.view(pod.name)

    def view(self, name: str) -> PodView:
        found = self.cache.get(POD, (NAMESPACE, name))
        assert isinstance(found, PodView)
        return found


@pytest.fixture
def world() -> World:
    return World()


async def test_a_release_takes_our_gate_and_no_other(world: World) -> None:
    body = prefetch("a").waits("n1").body()
    body["spec"]["schedulingGates"].append({"name": "example.com/quota"})
    world.cache.upsert(POD, world.kube.put(body))
    await world.actions.apply(PodChanges(release=(world.view("a"),)))
    assert world.kube.find(POD, "a")["spec"]["schedulingGates"] == [{"name": "example.com/quota"}]
    pull = world.view("a").pull
    assert pull is not None
    assert not pull.gated, "the operator knows at once"


async def test_the_label_is_set_and_taken_off(world: World) -> None:
    pod = world.pod(prefetch("a").resident())
    await world.actions.apply(PodChanges(relabel=(pod,)))
    assert world.kube.find(POD, "a")["metadata"]["labels"]["warmpod.io/resident"] == "true"
    await world.actions.apply(PodChanges(relabel=(world.view("a"),)))
    assert "warmpod.io/resident" not in world.kube.find(POD, "a")["metadata"]["labels"]


async def test_an_evicted_pod_is_gone_at_once(world: World) -> None:
    pod = world.pod(prefetch("a").resident())
    await world.actions.apply(PodChanges(evict=(pod,)))
    assert world.kube.find(POD, "a") is None
    assert world.cache.get(POD, (NAMESPACE, "a")) is None


async def test_engines_are_never_deleted(world: World) -> None:
    pod = world.pod(engine("e").warm())
    with pytest.raises(AssertionError, match="no prefetch pod"):
        await world.actions.apply(PodChanges(evict=(pod,)))
    assert world.kube.find(POD, "e") is not None


async def test_a_pod_that_was_replaced_is_left_alone(world: World) -> None:
    pod = world.pod(prefetch("a").waits("n1"))
    world.kube.objects.clear()
    await world.actions.apply(PodChanges(release=(pod,), relabel=(pod,)))
    body = prefetch("a").waits("n1").body()
    body["metadata"]["uid"] = "another"
    world.kube.put(body)
    await world.actions.apply(PodChanges(release=(pod,), evict=(pod,)))
    assert world.kube.find(POD, "a")["spec"]["schedulingGates"] != []


async def test_the_servers_wish_to_be_left_alone_is_heard(world: World) -> None:
    pod = world.pod(prefetch("a").waits("n1"))
    world.kube.fail("merge_lists", "Pod", ApiError(429, "TooMany", "wait", retry_after=3))
    with pytest.raises(RetryLater):
        await world.actions.apply(PodChanges(release=(pod,)))
    world.kube.fail("merge_lists", "Pod", ApiError(500, "Error", "no"))
    with pytest.raises(ApiError):
        await world.actions.apply(PodChanges(release=(pod,)))
