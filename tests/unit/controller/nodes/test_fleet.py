"""All nodes and prefetch pods together: turns over models, news, and who is told of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from unit.controller.builders import (
    GIB,
    NAME,
    NAMESPACE,
    NOW,
    Object,
    PodWrapper,
    ago,
    node,
    prefetch,
)
from warmpod import reasons
from warmpod.controller.apiserver.kinds import NODE, POD
from warmpod.controller.nodes.checks import Checks
from warmpod.controller.nodes.fleet import DECISION_SECONDS, Fleet
from warmpod.controller.nodes.placement import Placement, of_template
from warmpod.controller.nodes.preflight import Disk, Layers
from warmpod.controller.nodes.queue import TURN
from warmpod.controller.nodes.seen import NodesSeen
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.views import PodView
from warmpod.resources.names import MODEL_LABEL

KEY = (NAMESPACE, NAME)
OTHER = (NAMESPACE, "other")
WEIGHTS = "registry.example.com/weights:1"
ENGINE = "registry.example.com/engine:1"
ANYWHERE = of_template({"spec": {}})


class Told:
    """Answers as they were given by a test; what is not there is being asked."""

    def __init__(self, answers: dict[str, object], default: object) -> None:
        self.answers = answers
        self.default = default
        self.asked: list[str] = []

    def lookup(self, question: Any, key: tuple[str, str]) -> object:
        name = question[0] if isinstance(question, tuple) else question.node
        self.asked.append(name)
        return self.answers.get(name, self.default)


class World:
    def __init__(self, limit: int = 2) -> None:
        self.now = 0.0
        self.version = 100
        self.woken: list[tuple[str, str]] = []
        self.losses: list[tuple[object, ...]] = []
        self.sizes = Told({}, "unknown")
        self.disks = Told({}, "unknown")
        self.fleet = Fleet(
            limit,
            Checks(self.sizes, self.disks),
            self.woken.append,
            lambda *loss: self.losses.append(loss),
            clock=lambda: self.now,
            now=lambda: NOW + timedelta(seconds=self.now),
        )
        self.fleet.watched = True
        self.cache = Cache(self.fleet.changed)

    def node(self, name: str, *images: str, **fields: Any) -> None:
        self.version += 1
        self.cache.upsert(NODE, node(name, *images, version=self.version, **fields))

    def nodes(self, count: int) -> None:
        for number in range(count):
            self.node(f"n{number}")

    def pod(self, pod: PodWrapper, of: tuple[str, str] = KEY) -> None:
        self.cache.upsert(POD, self.body(pod, of))

    def body(self, pod: PodWrapper, of: tuple[str, str] = KEY) -> Object:
        self.version += 1
        body = pod.body()
        body["metadata"]["resourceVersion"] = str(self.version)
        body["metadata"]["labels"][MODEL_LABEL] = of[1]
        return body

    def look(self, key: tuple[str, str] = KEY, placement: Placement = ANYWHERE) -> NodesSeen:
        pods = [pod for pod in self.cache.owned(POD, key) if isinstance(pod, PodView)]
        seen = self.fleet.look(key, placement, tuple(pods))
        assert seen is not None
        return seen

    def turn(self, key: tuple[str, str] = KEY) -> list[str]:
        return sorted(uid.removeprefix("uid-") for uid in self.look(key).turn)


@pytest.fixture
def world() -> World:
    return World()


def waits(name: str, node: str, *images: str, minutes: float = 2) -> PodWrapper:
    return prefetch(name).waits(node, *(images or (WEIGHTS,)), created=ago(minutes=minutes))


def goes(pod: PodWrapper) -> PodWrapper:
    """Without its gate, and not yet on its node."""
    return PodWrapper(**{**pod.__dict__, "gated": False})


# --- Who may go -----------------------------------------------------------------------------------


def test_unwatched_nodes_mean_nothing(world: World) -> None:
    world.fleet.watched = False
    assert world.fleet.look(KEY, ANYWHERE, ()) is None


def test_eligible_nodes(world: World) -> None:
    world.node("n1")
    world.node("n2", taints=["a=b:NoSchedule"])
    world.node("n3", cordoned=True)
    assert world.look().eligible == {"n1"}
    world.node("n2")
    world.node("n1", taints=["a=b:NoSchedule"])
    assert world.look().eligible == {"n2"}
    world.cache.remove(NODE, node("n2", version=999))
    seen = world.look()
    assert seen.eligible == set()
    assert seen.unfit == {"with the taint a=b:NoSchedule": 1, "cordoned": 1}


def test_another_placement_has_other_nodes(world: World) -> None:
    world.node("n1", labels={"zone": "a"})
    world.node("n2", labels={"zone": "b"})
    in_b = of_template({"spec": {"nodeSelector": {"zone": "b"}}})
    assert world.look(placement=in_b).eligible == {"n2"}
    assert world.look().eligible == {"n1", "n2"}
    assert world.look(OTHER, in_b).eligible == {"n2"}
    world.fleet.forget(OTHER)
    world.fleet.forget(KEY)
    assert world.look(placement=in_b).eligible == {"n2"}


def test_nodes_that_will_return(world: World) -> None:
    world.node("n1", taints=["a=b:NoSchedule"])
    assert not world.look().returning
    world.node("n2", cordoned=True)
    assert world.look().returning
    world.node("n2", taints=["node.kubernetes.io/unreachable:NoExecute"])
    assert world.look().returning
    world.node("n2")
    assert not world.look().returning


def test_so_many_at_a_time_over_all_models(world: World) -> None:
    world.nodes(4)
    world.pod(waits("a", "n0", minutes=9))
    world.pod(waits("b", "n1", minutes=8), OTHER)
    world.pod(waits("c", "n2", minutes=7))
    world.look(OTHER)
    assert world.turn() == ["a"]
    assert world.turn(OTHER) == ["b"]
    assert world.look().waiting == {"uid-c": {"registry.example.com"}}


def test_the_next_one_goes_when_a_place_is_free(world: World) -> None:
    world.nodes(3)
    pods = [waits(name, f"n{number}", minutes=9 - number) for number, name in enumerate("abc")]
    for pod in pods:
        world.pod(pod)
    assert world.turn() == ["a", "b"]
    world.pod(goes(pods[0]))
    assert world.turn() == ["b"]
    world.pod(goes(pods[0]).on("n0"))
    assert world.turn() == ["b"]
    world.pod(goes(pods[0]).on("n0").running())
    assert world.turn() == ["b", "c"]


def test_who_is_given_a_turn_keeps_it(world: World) -> None:
    """Another WarmModel may look before the first one's writes are done."""
    world.nodes(4)
    world.look(OTHER)
    world.pod(waits("b", "n1", minutes=5))
    world.pod(waits("c", "n2", minutes=4))
    assert world.turn() == ["b", "c"]
    world.pod(waits("a", "n0", minutes=9), OTHER)
    assert world.turn(OTHER) == []
    assert world.turn() == ["b", "c"]


def test_a_model_is_told_of_its_turn(world: World) -> None:
    world.nodes(2)
    world.look(OTHER)
    world.pod(waits("a", "n0"), OTHER)
    world.woken.clear()
    world.look()
    assert world.woken == [OTHER]


def test_one_that_fails_keeps_no_place(world: World) -> None:
    world.nodes(3)
    world.pod(goes(waits("a", "n0")).on("n0"))
    world.pod(goes(waits("b", "n1")).on("n1").waiting("agent", "ImagePullBackOff", "no"))
    world.pod(waits("c", "n2"))
    assert world.turn() == ["c"]


def test_one_that_waits_for_a_volume_keeps_no_place(world: World) -> None:
    """Volumes come before images. A Secret or a claim that is not there never comes."""
    world.nodes(3)
    for name in ("n0", "n1"):
        world.pod(goes(waits(name, name)).on(name).scheduled(ago(seconds=1)), OTHER)
    world.pod(waits("c", "n2"))
    assert world.turn() == []
    world.now += 60
    assert world.turn() == ["c"]


def test_a_turn_that_is_not_taken_keeps_no_place(world: World) -> None:
    """As of a WarmModel in a namespace where a policy refuses to have pods changed."""
    world.nodes(3)
    world.look(OTHER)
    for name in ("n0", "n1"):
        world.pod(waits(name, name, minutes=9), OTHER)
    world.pod(waits("c", "n2"))
    assert world.turn() == []
    world.now += TURN.total_seconds()
    assert world.turn() == ["c"]
    assert world.turn(OTHER) == ["n0", "n1"], "they still may go"


def test_one_on_a_node_that_does_not_answer_keeps_no_place(world: World) -> None:
    world.nodes(3)
    for name in ("n0", "n1"):
        world.pod(goes(waits(name, name)).on(name), OTHER)
    world.pod(waits("c", "n2"))
    assert world.turn() == [], "what is not known of other models counts"
    world.look(OTHER)
    world.node("n0", taints=["node.kubernetes.io/unreachable:NoExecute"])
    assert world.turn() == ["c"]


def test_what_is_there_needs_no_turn(world: World) -> None:
    world.nodes(2)
    world.node("n2", WEIGHTS, ENGINE)
    world.node("n3", WEIGHTS)
    for name in ("n0", "n1"):
        world.pod(goes(waits(name, name)).on(name))
    world.pod(waits("here", "n2", WEIGHTS, ENGINE))
    world.pod(waits("half", "n3", WEIGHTS, ENGINE))
    assert world.turn() == ["here"]


def test_a_model_that_goes_makes_room(world: World) -> None:
    world.nodes(3)
    world.look(OTHER)
    for name in ("n0", "n1"):
        world.pod(goes(waits(name, name)).on(name), OTHER)
    world.pod(waits("c", "n2"))
    assert world.turn() == []
    world.woken.clear()
    world.cache.remove(POD, world.body(goes(waits("n0", "n0")).on("n0"), OTHER))
    assert KEY in world.woken
    assert world.turn() == ["c"]


def test_only_nodes_on_which_engines_can_land(world: World) -> None:
    world.node("n0")
    world.node("n1", cordoned=True)
    for name in ("n0", "n1", "unknown"):
        world.pod(waits(name, name))
    assert world.turn() == ["n0"]
    assert world.look().waiting == {}
    world.node("n1")
    assert world.turn() == ["n0", "n1"]


# --- Preflight ------------------------------------------------------------------------------------


def test_memory_is_checked_first(world: World) -> None:
    world.nodes(1)
    world.pod(PodWrapper(**{**waits("a", "n0").__dict__, "memory": "40Gi"}))
    seen = world.look()
    assert seen.turn == frozenset()
    assert seen.refused["uid-a"].reason == reasons.MEMORY_TOO_SMALL


def test_a_full_disk_is_refused_and_looked_at_again(world: World) -> None:
    world.nodes(1)
    world.pod(waits("a", "n0"))
    world.sizes.answers[WEIGHTS] = Layers(16 * GIB, 0)
    world.disks.answers["n0"] = Disk(20 * GIB, 100 * GIB)
    assert world.look().refused["uid-a"].reason == reasons.DISK_FULL
    world.disks.answers["n0"] = Disk(90 * GIB, 100 * GIB)
    world.now += DECISION_SECONDS
    assert world.turn() == ["a"]
    assert world.look().refused == {}


def test_a_refusal_stays_while_others_have_the_turn(world: World) -> None:
    world.nodes(4)
    for number, name in enumerate("abcd"):
        world.pod(waits(name, f"n{number}", minutes=9 - number))
    world.sizes.answers[WEIGHTS] = Layers(16 * GIB, 0)
    world.disks.answers["n0"] = Disk(20 * GIB, 100 * GIB)
    assert world.turn() == ["b", "c"]
    for _ in range(2):
        world.now += DECISION_SECONDS
        assert set(world.look().refused) == {"uid-a"}
        assert set(world.look().waiting) == {"uid-d"}


def test_nobody_goes_before_the_answers_are_there(world: World) -> None:
    world.nodes(1)
    world.pod(waits("a", "n0", WEIGHTS, ENGINE))
    world.sizes.answers = {WEIGHTS: Layers(1, 0), ENGINE: None}
    world.disks.answers["n0"] = None
    assert world.turn() == []
    assert sorted(world.sizes.asked) == [ENGINE, WEIGHTS]
    assert world.disks.asked == ["n0"]
    world.sizes.answers[ENGINE] = Layers(1, 0)
    world.disks.answers["n0"] = Disk(90 * GIB, 100 * GIB)
    world.fleet.answered(KEY)
    assert world.woken[-1] == KEY
    assert world.turn() == ["a"]


def test_what_is_not_known_is_not_held_against_a_node(world: World) -> None:
    world.nodes(2)
    world.node("n2", address="")
    world.pod(waits("a", "n0"))
    world.sizes.answers[WEIGHTS] = Layers(16 * GIB, 0)  # and the kubelet does not tell
    assert world.turn() == ["a"]
    world.disks.answers["n1"] = Disk(20 * GIB, 100 * GIB)
    world.sizes.answers.clear()  # and the registry does not tell
    world.pod(waits("b", "n1"))
    assert world.turn() == ["a", "b"]


# --- Images that are taken ------------------------------------------------------------------------


def holds(world: World, name: str = "a", node: str = "n0") -> PodWrapper:
    pod = goes(waits(name, node, WEIGHTS)).on(node).resident()
    world.pod(pod)
    return pod


def test_an_image_that_was_taken(world: World) -> None:
    world.node("n0", WEIGHTS, ENGINE)
    holds(world)
    world.woken.clear()
    world.node("n0", ENGINE)
    assert world.look().removed == {"uid-a": (WEIGHTS,)}
    assert world.woken == [KEY]
    ((key, where, reason, message),) = world.losses
    assert (key, where, reason) == (KEY, "n0", reasons.IMAGE_REMOVED)
    assert WEIGHTS in str(message)
    world.node("n0", ENGINE, "example.com/another:1")
    assert len(world.losses) == 1
    assert world.look().removed == {"uid-a": (WEIGHTS,)}


def test_an_image_that_came_back(world: World) -> None:
    world.node("n0", WEIGHTS, ENGINE)
    holds(world)
    world.node("n0", ENGINE)
    world.node("n0", WEIGHTS, ENGINE)
    assert world.look().removed == {}


def test_the_successor_has_lost_nothing(world: World) -> None:
    world.node("n0", WEIGHTS, ENGINE)
    pod = holds(world)
    world.node("n0", ENGINE)
    world.cache.remove(POD, world.body(pod))
    world.pod(waits("b", "n0"))
    world.pod(goes(waits("b", "n0")).on("n0").running())
    assert world.look().removed == {}


@pytest.mark.parametrize(
    "then",
    [
        {},  # a kubelet that does not reach its runtime lists nothing
        {"images": [ENGINE], "listed": 50},
        {"images": [WEIGHTS]},
        {"images": [ENGINE], "uid": "another node of this name"},
    ],
)
def test_what_proves_no_removal(world: World, then: dict[str, Any]) -> None:
    world.node("n0", WEIGHTS, ENGINE)
    holds(world)
    world.node("n0", *then.pop("images", ()), **then)
    assert world.look().removed == {}


def test_a_removal_behind_an_empty_list_is_seen(world: World) -> None:
    world.node("n0", WEIGHTS, ENGINE)
    holds(world)
    world.node("n0")
    world.node("n0", ENGINE)
    assert world.look().removed == {"uid-a": (WEIGHTS,)}


def test_a_pod_that_still_pulls_has_nothing_to_lose(world: World) -> None:
    world.node("n0", WEIGHTS, ENGINE)
    world.pod(goes(waits("a", "n0")).on("n0"))
    world.node("n0", ENGINE)
    assert world.look().removed == {}


# --- Who is told ----------------------------------------------------------------------------------


def test_only_models_that_a_node_concerns_are_told(world: World) -> None:
    world.nodes(2)
    holds(world)
    world.pod(goes(waits("b", "n1")).on("n1").resident(), OTHER)
    world.woken.clear()
    world.node("n0", labels={"new": "label"})
    assert world.woken == [KEY]
    world.woken.clear()
    world.node("n0", labels={"new": "label"})  # a heartbeat
    world.node("n0", "example.com/another:1", labels={"new": "label"})
    assert world.woken == []
    world.node("n0", "example.com/another:1", WEIGHTS, labels={"new": "label"})
    assert world.woken == [KEY]
    world.woken.clear()
    world.cache.remove(NODE, node("n1", version=999))
    assert world.woken == [OTHER]


def test_models_are_known_once_looked_at(world: World) -> None:
    assert not world.fleet.has_seen(KEY)
    world.fleet.look(KEY, None, ())
    assert world.fleet.has_seen(KEY)
    world.fleet.forget(KEY)
    assert not world.fleet.has_seen(KEY)
