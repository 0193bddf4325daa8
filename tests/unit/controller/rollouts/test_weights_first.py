"""When engines of a new revision may start: the rule as a table, and where its input comes from."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from unit.controller.builders import NOW, PodWrapper, World, ago, applied, engine, prefetch
from warmpod import reasons
from warmpod.controller.diagnosis.problems import Area, Problem
from warmpod.controller.nodes.seen import NodesSeen
from warmpod.controller.rollouts import weights_first
from warmpod.controller.rollouts.weights_first import Nodes
from warmpod.resources.names import REVISION_LABEL

A, B, C = (frozenset({name}) for name in "abc")
NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("nodes", "verified", "waited_for", "starts"),
    [
        pytest.param(Nodes(None), False, True, False, id="nothing is known"),
        pytest.param(Nodes(None), True, True, False, id="the nodes are not counted yet"),
        pytest.param(Nodes(0), False, True, True, id="no node: an autoscaler must see pods"),
        pytest.param(Nodes(0), False, False, True, id="no node for the new revision"),
        pytest.param(Nodes(3), False, True, False, id="first: nobody has verified"),
        pytest.param(Nodes(3), True, True, True, id="first: one has"),
        pytest.param(Nodes(3, A), True, False, False, id="new: one of three"),
        pytest.param(Nodes(3, A | B | C), True, False, True, id="new: all"),
        pytest.param(Nodes(3, A | B, C), True, False, True, id="new: the last one cannot"),
        pytest.param(Nodes(3, A, B), True, False, False, id="new: one has, one cannot, one waits"),
        pytest.param(Nodes(3, NONE, A | B | C), False, False, False, id="new: nowhere"),
        pytest.param(Nodes(2, A | B | C), True, False, True, id="a node has just left"),
    ],
)
def test_rule(nodes: Nodes, verified: bool, waited_for: bool, starts: bool) -> None:
    assert weights_first.may_start(nodes, verified=verified, waited_for=waited_for) == starts


SERVING = (
    World()
    .store()
    .prefetching(3, *(prefetch(f"old-{n}").on(f"node-{n}").resident() for n in range(3)))
    .deployed(engine().warm())
)
CHANGED = SERVING.change_weights()


def node(number: int) -> PodWrapper:
    return prefetch(f"new-{number}").on(f"node-{number}")


HERE = (node(0).resident(), node(1).resident())


def deployed(world: World, after: timedelta = timedelta(0)) -> str:
    found = applied(world.plan(NOW + after), "Deployment")
    assert found is not None
    label: str = found["spec"]["template"]["metadata"]["labels"][REVISION_LABEL]
    return label


@pytest.mark.parametrize(
    ("pods", "starts"),
    [
        pytest.param((), False, id="no pod yet"),
        pytest.param(HERE, False, id="the third pod is missing"),
        pytest.param((*HERE, node(2)), False, id="pulls"),
        pytest.param((*HERE, node(2).not_resident("Verifying")), False, id="verifies"),
        pytest.param((*HERE, node(2).not_resident("Loading")), False, id="loads"),
        pytest.param((*HERE, node(2).not_resident("NotResident")), False, id="pages dropped"),
        pytest.param((*HERE, node(2).resident()), True, id="everywhere"),
        pytest.param((*HERE, node(2).resident("Verified")), True, id="a copy in each pod"),
        pytest.param(
            (*HERE, node(2).not_resident("ResidencyNotMeasurable")), True, id="cannot be measured"
        ),
        pytest.param((*HERE, node(2).not_resident("DigestMismatch")), True, id="broken there"),
        pytest.param((*HERE, node(2).not_resident("SignatureInvalid")), True, id="not signed"),
        pytest.param(
            (*HERE, node(2).not_resident("SignatureUnchecked")), False, id="nobody to ask yet"
        ),
        pytest.param(
            (*HERE, node(2).waiting("agent", "ErrImagePull", "x: not found")), True, id="no image"
        ),
        pytest.param(
            (*HERE, node(2).waiting("agent", "ErrImagePull", "connection refused")),
            False,
            id="the registry is away for a moment",
        ),
        pytest.param(
            (*HERE, node(2).waiting_for("node-2").unschedulable("0/3", since=ago(minutes=1))),
            False,
            id="an autoscaler may come",
        ),
        pytest.param(
            (
                *HERE,
                prefetch("new-2")
                .waiting_for("node-2")
                .condition("PodScheduled", "False", "Unschedulable", "0/3 nodes", ago(minutes=11)),
            ),
            True,
            id="no autoscaler came",
        ),
        pytest.param(
            (*HERE, node(2).scheduled(since=ago(minutes=1))), False, id="the kubelet is slow"
        ),
        pytest.param(
            (*HERE, node(2).scheduled(since=ago(minutes=7))), True, id="the kubelet is dead"
        ),
        pytest.param(
            tuple(node(n).not_resident("DigestMismatch") for n in range(3)), False, id="nowhere"
        ),
        pytest.param((*HERE, node(2).resident().gone()), False, id="the pod is on its way out"),
    ],
)
def test_new_weights_come_to_all_nodes_first(pods: tuple[PodWrapper, ...], starts: bool) -> None:
    world = CHANGED.prefetching(3, *pods)
    assert deployed(world) == (CHANGED.hash if starts else SERVING.hash)


def test_time_alone_can_end_the_waiting_and_is_waited_for() -> None:
    pull = node(2).waiting("agent", "ErrImagePull", "connection refused")
    world = CHANGED.prefetching(3, *HERE, pull)
    seconds = world.plan().requeue_after
    assert seconds is not None
    assert deployed(world, timedelta(seconds=seconds)) == CHANGED.hash


def test_the_same_weights_are_not_waited_for_again() -> None:
    """A node has just joined, and only an argument of the engine changes."""
    world = SERVING.prefetching(
        4, *(prefetch(f"p-{n}").on(f"node-{n}").resident() for n in range(3))
    )
    changed = world.change(engine={"args": ["--new"]}).store(number=2)
    assert changed.identity == world.identity
    assert deployed(changed) == changed.hash


def test_reverting_the_spec_always_unblocks() -> None:
    broken = CHANGED.prefetching(3, *(node(n).not_resident("DigestMismatch") for n in range(3)))
    reverted = broken.change(model={"image": World().parsed.spec.model.image})
    plan = reverted.plan()
    assert deployed(reverted) == SERVING.hash
    assert reverted.conditions()["Ready"]["reason"] == "AllWarm"
    assert [gone.meta.name for gone in plan.delete] == [f"llama-prefetch-{CHANGED.identity}"]


def test_once_started_a_revision_is_not_taken_back() -> None:
    world = CHANGED.prefetching(3, node(0)).deployed(engine().warm(), of=CHANGED.hash)
    assert deployed(world) == CHANGED.hash


def test_nodes_that_do_not_count_are_not_failed_ones() -> None:
    """A node that was cordoned while it had no room would hide one that is on its way."""
    full = Problem(reasons.NO_ROOM_FOR_BOTH, "no room", Area.WEIGHTS, "c")
    pods = (prefetch("x").on("a").resident().view(), prefetch("y").on("b").view())
    found = weights_first.nodes(2, pods, [full], NOW)
    assert (found.arrived, found.failed, found.waiting) == (A, NONE, 1)


def test_while_all_nodes_are_away_for_a_while_what_serves_stays() -> None:
    """As when a network is down, or everything is cordoned."""
    away = replace(CHANGED.prefetching(3), nodes=NodesSeen(5, returning=True))
    assert deployed(away) == SERVING.hash
    without = replace(away, nodes=NodesSeen(5))
    assert deployed(without) == CHANGED.hash


def test_a_first_revision_starts_also_then() -> None:
    world = replace(World().store().prefetching(3), nodes=NodesSeen(5, returning=True))
    assert deployed(world) == world.hash
