"""The startup taint goes when the node is ready for every model that could use it."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from unit.controller.builders import NAME, NAMESPACE, NOW, node, prefetch, warm_model
from unit.controller.fake_kube import FakeKube
from warmpod.controller.apiserver.kinds import NODE, POD, WARM_MODEL
from warmpod.controller.apiserver.kube import ApiError
from warmpod.controller.nodes.actions import NodeActions
from warmpod.controller.nodes.checks import Checks
from warmpod.controller.nodes.fleet import Fleet
from warmpod.controller.nodes.placement import of_template
from warmpod.controller.nodes.taints import PATIENCE, StartupTaints
from warmpod.controller.objects.cache import Cache
from warmpod.controller.telling.metrics import Metrics

KEY = (NAMESPACE, NAME)
OURS = "warmpod.io/not-ready:NoSchedule"
OTHERS = "example.com/agent=absent:NoExecute"


class Unasked:
    def lookup(self, question: object, key: tuple[str, str]) -> object:
        return "unknown"


class World:
    def __init__(self) -> None:
        self.now = NOW
        self.kube: Any = FakeKube()
        checks = Checks(Unasked(), Unasked())
        self.fleet = Fleet(5, checks, lambda _: None, lambda *_: None)
        self.fleet.watched = True
        self.cache = Cache(self.fleet.changed)
        actions = NodeActions(self.kube, self.cache, Metrics(CollectorRegistry(), self.cache))
        self.taints = StartupTaints(self.cache, self.fleet, actions, now=lambda: self.now)

    def node(self, *taints: str, **fields: Any) -> None:
        self.cache.upsert(NODE, self.kube.put(node("n1", taints=taints, **fields)))

    def model(self, **spec: Any) -> None:
        self.cache.upsert(WARM_MODEL, warm_model())
        self.fleet.look(KEY, of_template({"spec": spec}), ())

    async def taints_left(self) -> list[str]:
        await self.taints.look()
        found = self.kube.find(NODE, "n1", "")
        return [taint["key"] for taint in found["spec"]["taints"]]


@pytest.fixture
def world() -> World:
    found = World()
    found.node(OTHERS, OURS, "warmpod.io/not-ready:NoExecute")
    return found


TOLERANT = {"tolerations": [{"operator": "Exists"}]}


async def test_a_node_that_no_model_wants_is_ready(world: World) -> None:
    assert await world.taints_left() == ["example.com/agent"]


async def test_a_model_that_cannot_land_there_is_not_waited_for(world: World) -> None:
    world.model()  # does not tolerate the other taint
    assert await world.taints_left() == ["example.com/agent"]


async def test_a_model_that_could_is_waited_for(world: World) -> None:
    world.model(**TOLERANT)
    assert len(await world.taints_left()) == 3
    world.cache.upsert(POD, prefetch("a").on("n1").running().body())
    assert len(await world.taints_left()) == 3
    body = prefetch("a").on("n1").resident().body()
    body["metadata"]["resourceVersion"] = "21"
    world.cache.upsert(POD, body)
    assert await world.taints_left() == ["example.com/agent"]


async def test_one_that_fails_for_good_does_not_hold_up_the_others(world: World) -> None:
    world.model(**TOLERANT)
    world.cache.upsert(POD, prefetch("a").on("n1").not_resident("DigestMismatch", "no").body())
    assert await world.taints_left() == ["example.com/agent"]


async def test_models_that_are_not_known_yet_are_waited_for(world: World) -> None:
    world.cache.upsert(WARM_MODEL, warm_model())
    assert len(await world.taints_left()) == 3


async def test_taints_that_moved_meanwhile_are_left_alone(world: World) -> None:
    world.kube.put(node("n1", taints=[OURS, OTHERS]))
    assert await world.taints_left() == ["warmpod.io/not-ready", "example.com/agent"]


async def test_without_the_right_the_api_servers_words_come_out(world: World) -> None:
    world.kube.fail("patch", "Node", ApiError(403, "Forbidden", "nodes is forbidden"))
    with pytest.raises(ApiError, match="forbidden"):
        await world.taints.look()


async def test_a_pod_that_nobody_creates_is_not_waited_for(world: World) -> None:
    world.model(**TOLERANT)
    assert len(await world.taints_left()) == 3
    world.now += PATIENCE
    assert await world.taints_left() == ["example.com/agent"]


async def test_a_pod_that_waits_for_a_volume_is_not_waited_for(world: World) -> None:
    world.model(**TOLERANT)
    world.cache.upsert(POD, prefetch("a").on("n1").scheduled().body())
    assert len(await world.taints_left()) == 3
    world.now += PATIENCE
    assert await world.taints_left() == ["example.com/agent"]
