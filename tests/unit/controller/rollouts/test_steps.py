"""With one pod more where there is room, else one by one: the rule as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.controller.builders import NOW, PodWrapper, World, ago, applied, engine, prefetch
from warmpod.controller.nodes.surge import Room
from warmpod.controller.rollouts import steps
from warmpod.controller.rollouts.marking import Marks
from warmpod.controller.rollouts.steps import Step
from warmpod.controller.rollouts.verdict import Verdicts
from warmpod.controller.status.transitions import transitions
from warmpod.resources.deployment import Strategy
from warmpod.resources.names import ROLE_LABEL

FITS = Room(True, 2, "there are places for 2")
FULL = Room(False, 1, "there are places for 1")

OLD = World().store().prefetching(1, prefetch().resident())
NEW = OLD.change(engine={"args": ["--new"]}).store(number=2)


def old(name: str = "old", role: str = "serving") -> PodWrapper:
    return replace(engine(name).of(OLD.hash).warm(), labels={ROLE_LABEL: role})


def asleep(name: str) -> PodWrapper:
    pod = old(name, "standby").condition("warmpod.io/Warm", "False", "Asleep")
    return pod.condition("Ready", "False")


def unplaced(**since: float) -> PodWrapper:
    return engine("new").of(NEW.hash).unschedulable("0/1 nodes are available", ago(**since))


def step(*pods: PodWrapper, room: Room | None, held: bool = False, of: str = "") -> Step:
    world = replace(NEW.deployed(*pods, of=of or OLD.hash), room=room)
    unjudged = frozenset({NEW.hash}) if held else frozenset()
    verdicts = Verdicts(unjudged=unjudged)
    return steps.step(world.observed(), world.parsed, NEW.hash, verdicts, NOW)


@pytest.mark.parametrize(
    ("found", "surge", "unavailable"),
    [
        pytest.param(step(old(), room=FITS), 1, 0, id="room"),
        pytest.param(step(old(), room=None), 1, 0, id="nobody may ask: as by default"),
        pytest.param(step(old(), room=FULL), 0, 1, id="no room"),
        pytest.param(step(old(), asleep("s"), room=FITS), 1, 1, id="who sleeps is not waited for"),
        pytest.param(
            step(old(), asleep("s"), room=FITS, held=True), 1, 0, id="but before the verdict"
        ),
        pytest.param(
            step(old(), engine("new").of(NEW.hash), room=FULL), 1, 0, id="one more has its place"
        ),
        pytest.param(step(old(), unplaced(seconds=5), room=FITS), 1, 0, id="just made"),
        pytest.param(
            step(old(), unplaced(seconds=20), room=FITS), 0, 1, id="the scheduler knows better"
        ),
        pytest.param(step(old(), unplaced(minutes=5), room=None), 1, 0, id="but not alone"),
        pytest.param(
            step(old(), unplaced(minutes=5), room=Room(False, 0, "none")), 1, 0, id="in vain"
        ),
        pytest.param(
            step(old("x").gone(), unplaced(minutes=5), room=FITS), 1, 0, id="a place is coming"
        ),
    ],
)
def test_step(found: Step, surge: int, unavailable: int) -> None:
    strategy = found.strategy
    assert (strategy.max_surge, strategy.max_unavailable) == (surge, unavailable)


def test_without_a_rollout_it_is_as_by_default_and_says_nothing() -> None:
    pod = engine("new").of(NEW.hash).warm()
    assert step(pod, room=FULL, of=NEW.hash) == Step()
    assert step(pod, room=FULL, of=NEW.hash, held=True) == Step(Strategy(held=True))


@pytest.mark.parametrize(("asked", "at_once"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_pods_that_are_held_back_may_go_together(asked: int, at_once: int) -> None:
    """As many as are there, and as the spec holds back; at least one, or nothing would move."""
    world = NEW.change(standby={"replicas": asked})
    pods = (old(), old("b", "standby"), old("c", "standby"))
    room = Room(False, 3, "there are places for 3")
    found = steps.step(
        replace(world.deployed(*pods, replicas=3, of=OLD.hash), room=room).observed(),
        world.parsed,
        NEW.hash,
        Verdicts(),
        NOW,
    )
    assert found.strategy.max_unavailable == at_once


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        pytest.param(
            (old(),),
            "there are places for 1, so 1 old pod goes before a new one comes, and none serves "
            "until a new one is warm",
            id="the only one",
        ),
        pytest.param(
            (old("a"), old("b").on("")),
            "there are places for 1, so 1 old pod goes before a new one comes",
            id="one of two",
        ),
    ],
)
def test_the_message_says_what_it_costs(pods: tuple[PodWrapper, ...], words: str) -> None:
    assert step(*pods, room=FULL).why == words


def test_no_pod_is_given_up_in_vain() -> None:
    found = step(old(), room=Room(False, 0, "there are places for 0"))
    assert found.reason == "RolloutWaitsForRoom"
    assert found.why.startswith("there are places for 0; ")


def test_it_is_in_the_conditions_and_the_deployment() -> None:
    marks = {NEW.hash: Marks()}
    world = replace(NEW, marks=marks).deployed(old(), engine("new").unschedulable("0/1", ago()))
    full = replace(world, room=FULL)
    reconciling = full.conditions()["Reconciling"]
    assert reconciling["reason"] == "RolloutOneByOne"
    assert "There are places for 1" in reconciling["message"]
    assert rolling(full) == {"maxSurge": 0, "maxUnavailable": 1}
    roomy = replace(world, room=FITS)
    assert roomy.conditions()["Reconciling"]["reason"] == "Progressing"
    assert "There are places for 2" in roomy.conditions()["Reconciling"]["message"]
    assert rolling(roomy) == {"maxSurge": 1, "maxUnavailable": 0}


def test_what_a_rollout_costs_is_told() -> None:
    marks = {NEW.hash: Marks()}
    world = replace(NEW, marks=marks).deployed(old(), engine("new").unschedulable("0/1", ago()))
    roomy, full = (replace(world, room=room).plan().status or {} for room in (FITS, FULL))
    (event,) = transitions(roomy, full)
    assert (event.type, event.reason) == ("Normal", "RolloutOneByOne")
    assert "There are places for 1" in event.message
    assert transitions(full, full) == ()


def rolling(world: World) -> dict[str, Any]:
    found = applied(world.plan(), "Deployment")
    assert found is not None
    strategy: dict[str, Any] = found["spec"]["strategy"]["rollingUpdate"]
    return strategy


def test_it_is_looked_at_again_while_a_rollout_is_under_way() -> None:
    world = NEW.deployed(old(), engine("new").unschedulable("0/1", ago()))
    seconds = replace(world, room=FULL).plan().requeue_after
    assert seconds is not None
    assert seconds <= steps.RECHECK
