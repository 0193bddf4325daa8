"""What nodes change in a WarmModel's plan, counts and conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.controller.builders import ENGINE_IMAGE, NOW, World, ago, prefetch
from warmpod import reasons
from warmpod.controller.nodes.preflight import Refusal
from warmpod.controller.nodes.seen import NodesSeen

REGISTRY = frozenset({"registry.example.com"})


def seen(*eligible: str, **fields: object) -> NodesSeen:
    return NodesSeen(5, frozenset(eligible), **fields)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    """Three nodes, as the DaemonSet counts them."""
    return (
        World()
        .store()
        .prefetching(
            3,
            prefetch("a").on("n1").resident(),
            prefetch("b").waits("n2", ENGINE_IMAGE),
            prefetch("c").waits("n3", ENGINE_IMAGE),
        )
    )


def nodes_of(world: World) -> dict[str, object]:
    status = world.plan().status
    assert status is not None
    found: dict[str, object] = status["nodes"]
    return found


def test_only_nodes_on_which_an_engine_can_land_count(world: World) -> None:
    """The DaemonSet has a pod on a node without GPU as well; it waits there for ever."""
    found = replace(world, nodes=seen("n1"))
    assert (nodes_of(found)["eligible"], nodes_of(found)["resident"]) == (1, 1)
    conditions = found.conditions()
    assert conditions["Prefetched"]["status"] == "True"
    assert conditions["WeightsResident"]["status"] == "True"


def test_where_nodes_are_not_watched_the_daemon_set_counts(world: World) -> None:
    assert nodes_of(world)["eligible"] == 3
    assert [pod.meta.name for pod in world.plan().pods.release] == ["b", "c"]


def test_a_node_that_is_not_eligible_any_more_does_not_count(world: World) -> None:
    found = replace(world, nodes=seen("n2", "n3"))
    assert (nodes_of(found)["eligible"], nodes_of(found)["resident"]) == (2, 0)


def test_no_eligible_node_says_why_not(world: World) -> None:
    unfit = {"with the taint a=b:NoSchedule": 1, "cordoned": 2}
    found = replace(world, nodes=seen(unfit=unfit))
    condition = found.conditions()["Prefetched"]
    assert condition["reason"] == reasons.NO_ELIGIBLE_NODES
    assert "Of 3: 2 cordoned, 1 with the taint a=b:NoSchedule." in condition["message"]


def test_waiting_while_others_of_the_model_pull(world: World) -> None:
    waiting = {"uid-c": REGISTRY}
    world = world.prefetching(
        3, prefetch("b").on("n2"), prefetch("c").waits("n3"), prefetch("a").on("n1").resident()
    )
    condition = replace(world, nodes=seen("n1", "n2", "n3", waiting=waiting)).conditions()
    assert condition["Prefetched"]["reason"] == reasons.PREFETCHING
    assert condition["Prefetched"]["message"].endswith(
        "1 node waits for a turn: at most 5 pull at a time from registry.example.com"
    )


def test_waiting_for_other_models(world: World) -> None:
    waiting = {"uid-b": REGISTRY, "uid-c": REGISTRY}
    found = replace(world, nodes=seen("n1", "n2", "n3", waiting=waiting))
    condition = found.conditions()["Prefetched"]
    assert (condition["status"], condition["reason"]) == ("False", reasons.WAITING_FOR_TURN)
    assert condition["message"].startswith("2 nodes wait for a turn: at most 5")
    assert found.conditions()["Stalled"]["status"] == "False"
    plan = found.plan()
    assert plan.requeue_after is not None
    assert plan.pods.release == ()


def test_a_refused_node_is_named_with_its_reason(world: World) -> None:
    refusal = Refusal("n2", reasons.DISK_FULL, "node n2: full")
    found = replace(
        world, nodes=seen("n1", "n2", "n3", refused={"uid-b": refusal}, turn=frozenset({"uid-c"}))
    )
    (failed,) = nodes_of(found)["failed"]  # type: ignore[misc]
    assert failed == {"node": "n2", "reason": "DiskFull", "message": "node n2: full"}
    assert found.conditions()["Prefetched"]["reason"] == reasons.DISK_FULL
    plan = found.plan()
    assert [pod.meta.name for pod in plan.pods.release] == ["c"]
    assert plan.requeue_after is not None, "nobody tells of a disk that was emptied"


def test_a_refused_node_does_not_hold_up_a_new_version(world: World) -> None:
    refusal = Refusal("n2", reasons.MEMORY_TOO_SMALL, "node n2: small")
    nodes = seen("n1", "n2", refused={"uid-b2": refusal})
    found = world.deployed().change_weights()
    found = found.prefetching(2, prefetch("a2").on("n1").resident(), prefetch("b2").waits("n2"))
    deployment = next(
        o for o in replace(found, nodes=nodes).plan().apply if o["kind"] == "Deployment"
    )
    template = deployment["spec"]["template"]["metadata"]["labels"]
    assert template["warmpod.io/revision"] == found.hash


def test_a_node_that_lost_an_image_is_not_prefetched(world: World) -> None:
    nodes = seen("n1", removed={"uid-a": (ENGINE_IMAGE,)})
    found = replace(world, nodes=nodes)
    assert (nodes_of(found)["prefetched"], nodes_of(found)["resident"]) == (0, 0)
    conditions = found.conditions()
    assert conditions["Prefetched"]["reason"] == reasons.IMAGE_REMOVED
    assert conditions["WeightsResident"]["status"] == "False"
    assert [pod.meta.name for pod in found.plan().pods.evict] == ["a"]


def test_what_waits_is_told_in_the_progress(world: World) -> None:
    found = replace(world, nodes=seen("n1", "n2", waiting={"uid-b": REGISTRY}))
    assert nodes_of(found)["progress"] == "1/2 resident; n2: waits for its turn to pull"


def test_nothing_is_done_to_pods_of_a_model_that_goes(world: World) -> None:
    model = dict(world.model)
    model["metadata"] = {**model["metadata"], "deletionTimestamp": ago(seconds=1)}
    assert not replace(world, model=model).plan(NOW).pods


def test_an_invalid_spec_keeps_no_node_from_the_weights(world: World) -> None:
    nodes = seen("n1", "n2", "n3", turn=frozenset({"uid-b"}), waiting={"uid-c": REGISTRY})
    plan = replace(world.change(replicas=-1), nodes=nodes).plan()
    assert [pod.meta.name for pod in plan.pods.release] == ["b"]
    assert plan.requeue_after is not None
