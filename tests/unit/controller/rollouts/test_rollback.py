"""Revisions that are judged by their first pod, kept or taken back: tables and whole plans."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from unit.controller.builders import (
    ACCEPTED,
    NOW,
    PodWrapper,
    World,
    ago,
    applied,
    engine,
    prefetch,
    revision_view,
)
from warmpod.controller.apiserver.kinds import CONTROLLER_REVISION, DAEMON_SET
from warmpod.controller.observed import StoredRevision
from warmpod.controller.plan import Plan
from warmpod.controller.rollouts import failures, marking, verdict
from warmpod.controller.rollouts.baseline import Baseline
from warmpod.controller.rollouts.marking import Marks, Rejection
from warmpod.controller.rollouts.verdict import FIGURES_DELAY, Verdicts
from warmpod.controller.status.transitions import transitions
from warmpod.resources.deployment import HELD_SECONDS, MIN_READY_SECONDS
from warmpod.resources.names import REVISION_LABEL

FAST = {"chat/16x1": 100.0, "chat/512x1": 200.0}
SLOW = {"chat/16x1": 190.0, "chat/512x1": 380.0}
PACE = Marks(baseline=Baseline("llama-old", "", FAST))
LONG_AGO = NOW - timedelta(minutes=1)

OLD = (
    World()
    .store()
    .prefetching(1, prefetch().resident())
    .deployed(engine("old").warm().timeline(boot="a", gate=1e9, fastest=FAST))
)
OLD = replace(OLD, marks={OLD.hash: PACE})


def changed(world: World, *args: str, **rollout: Any) -> World:
    """Another revision with the same weights is asked for, which nobody has judged."""
    new = world.change(engine={"args": list(args or ("--new",))}, rollout=rollout)
    stored = new.store(number=len(new.stored) + 1)
    return replace(stored, marks={**world.marks, stored.hash: Marks()})


def marked(world: World, marks: Marks) -> World:
    """The present revision has these."""
    return replace(world, marks={**world.marks, world.hash: marks})


def on_trial(*pods: PodWrapper, **rollout: Any) -> World:
    """The Deployment has the new revision, and the old pod is still there."""
    world = marked(changed(OLD, **rollout), Marks(previous=OLD.hash))
    return world.deployed(engine("old").of(OLD.hash).warm(), *pods)


def new_pod() -> PodWrapper:
    return engine("new")


def warm(fastest: dict[str, float]) -> PodWrapper:
    return new_pod().warm().timeline(boot="b", gate=1e9, fastest=fastest)


def deployed(plan: Plan) -> dict[str, Any]:
    found = applied(plan, "Deployment")
    assert found is not None
    spec: dict[str, Any] = found["spec"]
    return spec


def revision_of(plan: Plan) -> str:
    label: str = deployed(plan)["template"]["metadata"]["labels"][REVISION_LABEL]
    return label


def written(world: World, plan: Plan) -> World:
    """As the API server has it afterwards: annotations, and the Deployment's template."""
    marks = dict(world.marks)
    for obj in plan.apply:
        if obj["kind"] == "ControllerRevision":
            stored = next(s for s in world.stored if s.name == obj["metadata"]["name"])
            view = revision_view(stored.name, obj["metadata"].get("annotations"))
            marks[stored.hash] = marking.of(StoredRevision(view, stored))
    return replace(world, marks=marks)


def settled(world: World) -> tuple[World, Plan]:
    """Plans and writes until nothing is left to write down; the last plan."""
    for _ in range(4):
        plan = world.plan()
        if not any(obj["kind"] == "ControllerRevision" for obj in plan.apply):
            return world, plan
        world = written(world, plan)
    raise AssertionError("it never settles")


def verdicts(world: World) -> Verdicts:
    return verdict.of(world.observed(), world.parsed)


# --- The first pace -------------------------------------------------------------------------------


def test_the_first_pod_that_is_warm_gives_the_pace() -> None:
    world = replace(OLD, marks={OLD.hash: Marks()})
    plan = world.plan()
    after = written(world, plan)
    assert after.marks[OLD.hash] == Marks(baseline=Baseline("old", "", FAST))
    assert plan.events == ()
    assert applied(after.plan(), "ControllerRevision") is None


def test_figures_are_waited_for_and_not_for_ever() -> None:
    since = (NOW - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod = engine("old").running().condition("warmpod.io/Warm", "True", "Warm", since=since).ready()
    world = replace(OLD.deployed(pod), marks={OLD.hash: Marks()})
    plan = world.plan()
    assert applied(plan, "ControllerRevision") is None
    assert plan.requeue_after is not None
    assert plan.requeue_after <= FIGURES_DELAY.total_seconds()
    assert applied(world.plan(NOW + FIGURES_DELAY), "ControllerRevision") is not None


def test_a_pod_that_opened_unproven_has_no_pace() -> None:
    pod = warm(SLOW).condition("warmpod.io/Warm", "True", "OpenedUnproven")
    after = written(OLD, replace(OLD.deployed(pod), marks={OLD.hash: Marks()}).plan())
    assert after.marks[OLD.hash].baseline == Baseline("new", "", {})


def test_the_first_revision_of_all_is_accepted_and_never_taken_back() -> None:
    world = replace(OLD, marks={OLD.hash: Marks()})
    assert verdicts(world).accepted(OLD.hash)
    broken = world.deployed(new_pod().not_warm("GoldenMismatch", "other words"))
    failing = replace(broken, failing={"uid-new": LONG_AGO})
    assert applied(failing.plan(), "ControllerRevision") is None
    assert deployed(failing.plan())["minReadySeconds"] == MIN_READY_SECONDS


# --- The beginning of a rollout -------------------------------------------------------------------


def test_what_was_there_before_is_written_down_first() -> None:
    world = changed(OLD)
    plan = world.plan()
    assert revision_of(plan) == OLD.hash
    after = written(world, plan)
    assert after.marks[world.hash] == Marks(previous=OLD.hash)
    plan = after.plan()
    assert revision_of(plan) == world.hash
    assert deployed(plan)["minReadySeconds"] == HELD_SECONDS
    assert deployed(plan)["progressDeadlineSeconds"] > HELD_SECONDS


def test_after_an_accepted_one_the_next_is_compared_with_that() -> None:
    second = marked(changed(OLD), replace(PACE, previous=OLD.hash))
    second = second.deployed(engine("new").warm())
    third = changed(second, "--newer")
    assert written(third, third.plan()).marks[third.hash].previous == second.hash


def test_after_one_that_nobody_judged_the_next_is_compared_with_the_one_before() -> None:
    third = changed(on_trial(new_pod().not_warm("WarmingUp")), "--newer")
    assert written(third, third.plan()).marks[third.hash].previous == OLD.hash


def test_without_anything_good_before_it_a_revision_just_starts() -> None:
    broken = replace(OLD.deployed(new_pod().not_warm("EngineDied")), marks={OLD.hash: Marks()})
    mended = changed(broken)
    plan = mended.plan()
    assert revision_of(plan) == mended.hash
    assert deployed(plan)["minReadySeconds"] == MIN_READY_SECONDS


def test_an_accepted_revision_is_not_judged_again() -> None:
    again = marked(changed(OLD), PACE)
    plan = again.plan()
    assert revision_of(plan) == again.hash
    assert deployed(plan)["minReadySeconds"] == MIN_READY_SECONDS


# --- The verdict ----------------------------------------------------------------------------------


def test_one_as_fast_is_accepted_and_the_others_follow() -> None:
    world = on_trial(warm(FAST))
    assert verdicts(world).unjudged == {world.hash}
    plan = world.plan()
    assert [event.reason for event in plan.events] == ["RolloutAccepted"]
    after, plan = settled(world)
    assert verdicts(after).accepted(world.hash)
    assert after.marks[world.hash] == Marks(OLD.hash, Baseline("new", "", FAST))
    assert deployed(plan)["minReadySeconds"] == MIN_READY_SECONDS
    assert revision_of(plan) == world.hash


def test_a_slower_one_is_taken_back_with_the_numbers() -> None:
    world = on_trial(warm(SLOW))
    after, plan = settled(world)
    assert verdicts(after).rejected == {world.hash}
    assert revision_of(plan) == OLD.hash
    assert deployed(plan)["minReadySeconds"] == MIN_READY_SECONDS
    stalled = after.conditions()["Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "RolloutRejected")
    for words in ("90 % longer", "200 → 380 ms", "tolerancePercent: 50", OLD.hash):
        assert words in stalled["message"]
    assert after.conditions()["Ready"]["reason"] == "PreviousRevisionServes"
    assert after.conditions()["Reconciling"]["status"] == "False"


@pytest.mark.parametrize(
    ("pod", "rejected"),
    [
        pytest.param(new_pod().not_warm("GoldenMismatch", "said B for A"), True, id="golden"),
        pytest.param(new_pod().not_warm("WarmupStalled"), True, id="stalled"),
        pytest.param(new_pod().crash_looping("engine"), True, id="crash loop"),
        pytest.param(
            new_pod()
            .container("engine", restartCount=1)
            .condition("warmpod.io/Warm", "False", "OutOfMemory"),
            True,
            id="out of memory, and again",
        ),
        pytest.param(
            new_pod().not_warm("OutOfMemory"), False, id="out of memory in the first boot"
        ),
        pytest.param(new_pod().not_warm("GpuBusy"), False, id="an old pod is still there"),
        pytest.param(new_pod().not_warm("WarmingUp"), False, id="on its way"),
        pytest.param(new_pod().not_warm("EngineRestarting"), False, id="is tried again"),
        pytest.param(
            new_pod().unschedulable("0/1 nodes", ago(hours=1)), False, id="no place for it"
        ),
    ],
)
def test_one_that_is_never_warm_is_taken_back(pod: PodWrapper, rejected: bool) -> None:
    world = replace(on_trial(pod), failing={"uid-new": LONG_AGO})
    after, plan = settled(world)
    assert (world.hash in verdicts(after).rejected) == rejected
    assert revision_of(plan) == (OLD.hash if rejected else world.hash)


def test_a_failure_must_have_stood_for_a_while() -> None:
    pod = new_pod().not_warm("GoldenMismatch", "said B for A")
    world = replace(on_trial(pod), failing={"uid-new": NOW})
    plan = world.plan()
    assert applied(plan, "ControllerRevision") is None
    assert plan.requeue_after is not None
    assert plan.requeue_after <= failures.PERSISTS.total_seconds()


def test_it_is_not_taken_back_while_another_pod_may_be_warm() -> None:
    broken = new_pod().not_warm("GoldenMismatch", "said B for A")
    world = on_trial(broken, engine("newer").not_warm("WarmingUp"))
    failing = replace(world, failing={"uid-new": LONG_AGO})
    assert applied(failing.plan(), "ControllerRevision") is None


def test_other_hardware_is_not_compared() -> None:
    world = on_trial(warm(SLOW))
    world = replace(world, hardware={"node-1": "A10"})
    after, _ = settled(world)
    assert verdicts(after).accepted(world.hash)


def test_goldens_are_told_with_what_was_found() -> None:
    pod = new_pod().not_warm("GoldenMismatch", "said B for A")
    after, _ = settled(replace(on_trial(pod), failing={"uid-new": LONG_AGO}))
    message = after.conditions()["Stalled"]["message"]
    assert "GoldenMismatch" in message
    assert "said B for A" in message


def told(*worlds: World) -> list[tuple[str, str]]:
    """The warnings when one follows the other: those of the plans, and those of the statuses."""
    plans = [world.plan() for world in worlds]
    found = [event for plan in plans for event in plan.events]
    for previous, new in pairwise(plan.status or {} for plan in plans):
        found += transitions(previous, new)
    return [(event.reason, event.message) for event in found if event.type == "Warning"]


def test_a_rejection_is_told_once_with_what_to_do() -> None:
    """The rejected pod is warm at first, and then it is gone."""
    trial = on_trial(warm(SLOW))
    after, _ = settled(trial)
    gone = replace(after, deployment=OLD.deployment, engine_pods=OLD.engine_pods)
    ((reason, message),) = told(trial, after, gone)
    assert reason == "RolloutRejected"
    assert "90 % longer" in message
    assert "kubectl -n models annotate controllerrevision" in message


def test_a_rejection_of_what_was_never_warm_is_told_once() -> None:
    pod = new_pod().not_warm("GoldenMismatch", "said B for A")
    trial = replace(on_trial(pod), failing={"uid-new": LONG_AGO})
    after, _ = settled(trial)
    gone = replace(rejected(), marks=after.marks)
    assert [reason for reason, _ in told(trial, after, gone)] == ["RolloutRejected"]


# --- What a person may do -------------------------------------------------------------------------

REJECTED = Marks(OLD.hash, rejection=Rejection("slower", 90))


def rejected(**rollout: Any) -> World:
    """The new revision was taken back, and the old one is there."""
    world = marked(changed(OLD, **rollout), REJECTED)
    return replace(world, deployment=OLD.deployment, engine_pods=OLD.engine_pods)


def test_the_same_spec_once_more_stays_rejected() -> None:
    plan = rejected().plan()
    assert revision_of(plan) == OLD.hash
    message = rejected().conditions()["Stalled"]["message"]
    assert "kubectl -n models annotate controllerrevision" in message
    assert "onRegression: Proceed" in message


def test_the_same_spec_once_more_is_told_again() -> None:
    reverted = replace(rejected(), model=OLD.model)
    assert [reason for reason, _ in told(reverted, rejected())] == ["RolloutRejected"]


@pytest.mark.parametrize(
    ("rollout", "runs"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"tolerancePercent": 89}, False, id="a tolerance that is too low"),
        pytest.param({"tolerancePercent": 90}, True, id="a tolerance that is high enough"),
        pytest.param({"onRegression": "Proceed"}, True, id="to have it all the same"),
    ],
)
def test_what_unblocks(rollout: dict[str, Any], runs: bool) -> None:
    world = rejected(**rollout)
    assert (revision_of(world.plan()) == world.hash) == runs


def test_a_rejection_for_a_failure_is_no_matter_of_tolerance() -> None:
    world = marked(rejected(tolerancePercent=1000), Marks(OLD.hash, rejection=Rejection("died")))
    assert revision_of(world.plan()) == OLD.hash


def test_reverting_unblocks() -> None:
    world = rejected()
    reverted = replace(world, model=OLD.model)
    assert reverted.conditions()["Ready"]["reason"] == "AllWarm"
    assert reverted.conditions()["Stalled"]["status"] == "False"
    assert revision_of(reverted.plan()) == OLD.hash


def test_reverting_in_the_middle_unblocks() -> None:
    world = replace(on_trial(new_pod().not_warm("WarmingUp")), model=OLD.model)
    plan = world.plan()
    assert revision_of(plan) == OLD.hash
    assert deployed(plan)["minReadySeconds"] == MIN_READY_SECONDS


def test_another_change_unblocks() -> None:
    world, plan = settled(changed(rejected(), "--mended"))
    assert revision_of(plan) == world.hash
    assert world.marks[world.hash].previous == OLD.hash


def test_whoever_had_it_all_the_same_has_it_for_good() -> None:
    """Setting the policy back does not bring the old revision back."""
    world = rejected(onRegression="Proceed").deployed(warm(SLOW))
    after, _ = settled(world)
    assert after.marks[world.hash] == Marks(OLD.hash, Baseline("new", "", SLOW))
    back = after.change(rollout={"onRegression": "Rollback"})
    assert revision_of(back.plan()) == world.hash


def test_replicas_zero_keep_a_rejection_in_sight() -> None:
    world = rejected().change(replicas=0)
    assert world.hash == rejected().hash
    assert world.conditions()["Stalled"]["reason"] == "RolloutRejected"
    assert world.conditions()["Reconciling"]["status"] == "False"


def test_a_mark_of_a_person_counts() -> None:
    by_hand = {marking.REJECTED_ANNOTATION: "I do not like it"}
    stored = StoredRevision(revision_view("llama-1", by_hand), OLD.stored[0])
    assert marking.of(stored).rejection == Rejection("I do not like it")


def test_marks_are_read_as_they_were_written() -> None:
    marks = replace(PACE, previous="0123456789", rejection=Rejection("slower — by 90 %", 90))
    stored = StoredRevision(revision_view("llama-1", marks.annotations()), OLD.stored[0])
    assert marking.of(stored) == marks


# --- What is gone back to must be there -----------------------------------------------------------


def test_the_old_weights_stay_until_the_verdict() -> None:
    """Where there is no room for one pod more, no pod of the old revision is there meanwhile."""
    world = OLD.change_weights()
    world = replace(world, marks={**OLD.marks, world.hash: Marks(previous=OLD.hash)})
    world = world.prefetching(1, prefetch("p").resident()).deployed(new_pod().not_warm("WarmingUp"))
    assert [d for d in world.plan().delete if d.kind is DAEMON_SET] == []
    accepted = marked(world, replace(ACCEPTED, previous=OLD.hash))
    (gone,) = [d for d in accepted.plan().delete if d.kind is DAEMON_SET]
    assert OLD.identity in gone.meta.name


def test_without_the_old_weights_there_is_nothing_to_go_back_to() -> None:
    world = OLD.change_weights()
    world = replace(world, marks={**OLD.marks, world.hash: Marks(previous=OLD.hash)})
    world = replace(world, daemon_sets=()).prefetching(1, prefetch("p").resident())
    world = replace(
        world.deployed(new_pod().not_warm("WarmupStalled")), failing={"uid-new": LONG_AGO}
    )
    assert verdicts(world).accepted(world.hash)
    assert revision_of(world.plan()) == world.hash


def test_what_may_be_gone_back_to_is_not_cleaned_up() -> None:
    world = OLD
    for number in range(8):
        world = marked(changed(world, f"--{number}"), ACCEPTED)
    world = marked(changed(world, "--last"), Marks(previous=OLD.hash)).deployed(
        new_pod().not_warm("WarmingUp")
    )
    names = {d.meta.name for d in world.plan().delete if d.kind is CONTROLLER_REVISION}
    assert len(names) == 3
    assert OLD.stored[0].name not in names


# --- Since when something fails -------------------------------------------------------------------


def test_a_failure_is_watched_by_its_reason() -> None:
    watch, key = failures.FailureWatch(), ("models", "llama")
    stalled = engine().not_warm("WarmupStalled").view()
    failed = engine().not_warm("WarmupFailed").view()
    well = engine().not_warm("WarmingUp").view()
    later = NOW + timedelta(seconds=20)
    assert watch.look(key, [stalled], NOW) == {stalled.meta.uid: NOW}
    assert watch.look(key, [stalled], later) == {stalled.meta.uid: NOW}
    assert watch.look(key, [failed], later) == {stalled.meta.uid: later}
    assert watch.look(key, [well], later) == {}
    assert watch.look(key, [failed], NOW) == {stalled.meta.uid: NOW}
    watch.forget(key)
    assert watch.look(key, [failed], later) == {stalled.meta.uid: later}
