"""DaemonSets that go: those of weights that no engine uses, and those whose memory is wanted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from unit.controller.builders import (
    NOW,
    PodWrapper,
    World,
    ago,
    applied,
    daemon_set,
    engine,
    prefetch,
    warm_model,
)
from warmpod.controller.apiserver.kinds import DAEMON_SET
from warmpod.controller.prefetch import rivalry
from warmpod.resources.names import PREFETCH_LABEL

BEFORE = World().store().prefetching(1, prefetch("old").resident()).deployed(engine().warm())
AFTER = BEFORE.change_weights()
ARRIVED = AFTER.prefetching(1, prefetch("new").resident())
OLD, NEW = BEFORE.identity, AFTER.identity


def deleted(world: World, after: timedelta = timedelta(0)) -> list[str]:
    plan = world.plan(NOW + after)
    return [gone.meta.name.rpartition("-")[2] for gone in plan.delete if gone.kind is DAEMON_SET]


def switched(*pods: PodWrapper) -> World:
    """The Deployment has the new revision; `pods` are the engines that there are."""
    return ARRIVED.deployed(*pods)


OLD_ENGINE = engine("old").of(BEFORE.hash).warm()
NEW_ENGINE = engine("new").of(AFTER.hash).warm()


@pytest.mark.parametrize(
    ("world", "gone"),
    [
        pytest.param(BEFORE, [], id="nothing has changed"),
        pytest.param(
            BEFORE.change(model={"image": "registry.example.com/llama:9"}),
            [],
            id="it is not known yet what the new spec needs",
        ),
        pytest.param(AFTER, [], id="the new one is about to be made"),
        pytest.param(ARRIVED, [], id="the Deployment has the old revision"),
        pytest.param(switched(OLD_ENGINE, NEW_ENGINE), [], id="an old engine serves"),
        pytest.param(switched(OLD_ENGINE.gone(), NEW_ENGINE), [], id="an old engine drains"),
        pytest.param(switched(NEW_ENGINE), [OLD], id="no old engine is left"),
        pytest.param(
            switched(OLD_ENGINE.failed("Evicted"), NEW_ENGINE), [OLD], id="the last one is dead"
        ),
        pytest.param(
            switched(engine("x").of("0123456789"), NEW_ENGINE),
            [],
            id="an engine of a revision that nobody knows",
        ),
        pytest.param(
            replace(ARRIVED, deployment=None, engine_pods=()), [OLD], id="there is no Deployment"
        ),
        pytest.param(
            BEFORE.change(engine={"args": ["--new"]}).store(number=2),
            [],
            id="other arguments, the same weights",
        ),
    ],
)
def test_weights_stay_as_long_as_an_engine_may_read_them(world: World, gone: list[str]) -> None:
    assert deleted(world) == gone


def test_the_new_one_is_made_beside_the_old_one() -> None:
    made = applied(AFTER.plan(), "DaemonSet")
    assert made is not None
    assert made["metadata"]["labels"][PREFETCH_LABEL] == NEW != OLD


def test_other_arguments_change_no_daemonset() -> None:
    changed = BEFORE.change(engine={"args": ["--new"]}).store(number=2)
    assert applied(changed.plan(), "DaemonSet") == applied(BEFORE.plan(), "DaemonSet")


def test_what_goes_is_told() -> None:
    (event,) = switched(NEW_ENGINE).plan().events
    assert (event.type, event.reason) == ("Normal", "WeightsReleased")
    assert f"llama-prefetch-{OLD}" in event.message


def test_the_daemonset_of_an_earlier_version_goes_when_its_successor_has_the_weights() -> None:
    earlier = daemon_set("", 1)
    world = replace(BEFORE, daemon_sets=(*BEFORE.daemon_sets, earlier))
    assert deleted(world) == [earlier.meta.name.rpartition("-")[2]]
    assert deleted(world.prefetching(1, prefetch().not_resident("Verifying"))) == []


# --- Both do not fit ------------------------------------------------------------------------------

FULL = "0/3 nodes are available: 1 Insufficient memory, 2 node(s) didn't match Pod's node affinity"


def rivals(
    *engines: PodWrapper,
    medium: str = "NodeMemory",
    held: tuple[str, ...] = ("node-1",),
    message: str = FULL,
    since: str = ago(minutes=1),
) -> World:
    """Old weights on the nodes `held`, and new ones that wait for node-1."""
    weights = {"medium": medium, "size": "16Gi"}
    before = World(warm_model(weights=weights)).store()
    olds = [prefetch(f"old-{name}").on(name).resident() for name in held]
    before = before.prefetching(2, *olds).deployed(*engines)
    waiting = prefetch("new").unschedulable(message, since).waiting_for("node-1")
    after = before.change_weights(weights={"size": "20Gi"})
    return after.prefetching(2, waiting, prefetch("there").on("node-2").resident())


def old_of(world: World) -> str:
    return world.daemon_sets[0].template


@pytest.mark.parametrize(
    ("world", "swapped"),
    [
        pytest.param(rivals(), True, id="nobody uses the old ones"),
        pytest.param(rivals(engine().on("node-2").warm()), True, id="the engine is elsewhere"),
        pytest.param(rivals(engine().on("node-1").warm()), False, id="an engine has them open"),
        pytest.param(
            rivals(engine().on("node-1").warm().gone()), False, id="an engine drains there"
        ),
        pytest.param(
            rivals(engine().on("node-1").warm(), medium="Image"), True, id="page cache can go"
        ),
        pytest.param(
            rivals(engine().on("node-1").warm(), medium="PodMemory"), True, id="pods have their own"
        ),
        pytest.param(rivals(held=("node-3",)), False, id="something else fills the node"),
        pytest.param(rivals(message="0/3 nodes: 1 Insufficient cpu"), False, id="it is not memory"),
        pytest.param(rivals(since=ago(seconds=5)), False, id="the scheduler has only just looked"),
    ],
)
def test_the_old_weights_go_first_where_both_do_not_fit(world: World, swapped: bool) -> None:
    assert deleted(world) == ([old_of(world)] if swapped else [])


def test_a_shortage_is_looked_at_again_when_it_has_lasted() -> None:
    world = rivals(since=ago(seconds=5))
    seconds = world.plan().requeue_after
    assert seconds == rivalry.PATIENCE.total_seconds() - 5
    assert deleted(world, timedelta(seconds=seconds)) == [old_of(world)]


def test_no_swap_while_other_weights_are_leaving_the_node() -> None:
    world = rivals()
    leaving = prefetch("older").of("00000000").on("node-1").resident().gone().view()
    assert deleted(replace(world, prefetch_pods=(*world.prefetch_pods, leaving))) == []


def test_a_swap_is_told_with_numbers_and_the_way_back() -> None:
    (event,) = rivals().plan().events
    assert (event.type, event.reason) == ("Warning", "WeightsSwapped")
    for words in ("node-1", "16Gi", "20Gi", "Insufficient memory", "revert the spec"):
        wanted = {"16Gi": "16576Mi", "20Gi": "20672Mi"}.get(words, words)
        assert wanted in event.message


def test_where_they_cannot_go_first_a_person_is_told_how_to_make_room() -> None:
    world = rivals(engine().on("node-1").warm())
    status = world.plan().status
    assert status is not None
    (failed,) = status["nodes"]["failed"]
    assert (failed["node"], failed["reason"]) == ("node-1", "NoRoomForBoth")
    assert "spec.replicas and spec.standby.replicas 0" in failed["message"]
    assert world.plan().events == ()
