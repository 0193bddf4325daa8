"""What is done about objects that others edit: undone, left and named, and never for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.controller.apply_bench import KEY, MODEL, Bench
from unit.controller.builders import NAME, Object, PodWrapper, World, ago, engine
from warmpod.controller.apiserver.kinds import DEPLOYMENT, POD, SERVICE
from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.apply import CONFLICT_SECONDS
from warmpod.controller.edits.undoing import HOUR, REST, TIMES
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.resources import deployment

WORLD = World().store()
DEPLOYED = deployment.build(MODEL, WORLD.stored[0], 1)
OTHER_REVISION = deployment.build(
    MODEL, World().change(engine={"args": ["--seed=1"]}).store().stored[0], 1
)


@pytest.fixture
async def bench() -> Bench:
    """Service and Deployment are there, applied by us as the API server would note it."""
    found = Bench()
    found.kube.admit = with_fields
    await found.apply()
    await found.apply(DEPLOYED)
    return found


def with_fields(obj: Object) -> Object:
    """Who applied it owns it. What others own, and we took over, goes with that."""
    entries = [
        {"manager": "warmpod", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
        *(e for e in obj["metadata"].get("managedFields", ()) if e["manager"] != "warmpod"),
    ]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def edit(bench: Bench, kind: Any = SERVICE, at: str = "", **spec: Any) -> None:
    """Somebody adds fields, and the watch tells."""
    stored = bench.kube.find(kind, NAME)
    assert stored is not None
    fields = {f"f:{name}": {"f:spec": {}} if name == "template" else {} for name in spec}
    theirs = {
        "manager": "kubectl-edit",
        "operation": "Update",
        "time": at or ago(minutes=1),
        "fieldsV1": {"f:spec": fields},
    }
    metadata = stored["metadata"]
    others = [e for e in metadata["managedFields"] if e["manager"] != theirs["manager"]]
    metadata = {**metadata, "managedFields": [*others, theirs]}
    changed = {**stored, "metadata": metadata, "spec": {**stored["spec"], **spec}}
    bench.cache.upsert(kind, bench.kube.put(changed))


def edit_template(bench: Bench, at: str = "") -> None:
    stored = bench.kube.find(DEPLOYMENT, NAME)
    assert stored is not None
    edit(bench, DEPLOYMENT, at, template=stored["spec"]["template"], paused=True)


def serve(bench: Bench, pod: PodWrapper) -> None:
    bench.cache.upsert(POD, pod.body())


async def test_what_somebody_added_is_taken_over_and_told(bench: Bench) -> None:
    edit(bench, sessionAffinity="ClientIP")
    before = len(bench.kube.writes())
    outcome = await bench.apply()
    assert [call[0] for call in bench.kube.writes()[before:]] == ["patch", "apply"]
    (event,) = outcome.events
    assert (event.type, event.reason) == ("Warning", "EditUndone")
    told = "Service models/llama: spec.sessionAffinity (set by kubectl-edit): undone — Set what"
    assert event.message.startswith(told)
    quiet = await bench.apply()
    assert (quiet.wrote, quiet.failures, quiet.events) == (False, (), ())


async def test_after_a_restart_too(bench: Bench) -> None:
    edit(bench, sessionAffinity="ClientIP")
    again = Bench(bench.kube, bench.cache)
    assert [event.reason for event in (await again.apply()).events] == ["EditUndone"]


async def test_a_stubborn_one_is_named_and_left(bench: Bench) -> None:
    for _ in range(TIMES):
        edit(bench, sessionAffinity="ClientIP")
        assert (await bench.apply()).events
    edit(bench, sessionAffinity="ClientIP")
    before = len(bench.kube.writes())
    for _ in range(5):
        bench.now += 10
        (failure,) = (await bench.apply()).failures
        assert failure.reason == "ChildEdited"
        assert failure.object == "Service models/llama"
        assert failure.message == (
            "spec.sessionAffinity (set by kubectl-edit). That was undone 3 times within an hour"
        )
    assert len(bench.kube.writes()) == before
    bench.now += HOUR
    assert (await bench.apply()).events, "an hour later it is tried again"


async def test_our_own_fields_are_set_again_once_a_minute(bench: Bench) -> None:
    writes = []
    for _ in range(100):
        await bench.told(spec={"selector": {"app": "stolen"}})
        outcome = await bench.apply()
        writes.append(outcome.wrote)
        bench.now += 1.0
    assert writes[: TIMES + 1] == [True] * TIMES + [False]
    assert sum(writes[TIMES:]) == 1, f"within {100 - TIMES} s, every {REST:.0f} s"
    failures = (await bench.apply()).failures
    assert [failure.reason for failure in failures] == ["ChildEdited"]


async def test_between_two_attempts_the_same_is_said(bench: Bench) -> None:
    said = set()
    for number in range(40):
        edit(bench, selector={"app": "stolen"})
        await bench.apply()
        bench.now += REST / 4
        if number > TIMES:
            said |= set((await bench.apply()).failures)
    assert len(said) == 1


async def test_a_write_that_changes_nothing_is_no_fight(bench: Bench) -> None:
    """Such as after `kubectl rollout restart`."""
    for _ in range(2 * TIMES):
        stored = bench.kube.find(DEPLOYMENT, NAME)
        assert stored is not None
        restarted = {**stored["spec"], "restarts": str(bench.now)}
        bench.cache.upsert(DEPLOYMENT, bench.kube.put({**stored, "spec": restarted}))
        bench.now += 1
        assert (await bench.apply(DEPLOYED)).failures == ()


@pytest.mark.parametrize(
    ("pod", "undone"),
    [
        (engine().warm(), True),
        (replace(engine(), created=ago(seconds=30)).warm(), False),
        (replace(engine(), created=ago(seconds=30)).not_warm("Asleep"), False),
        (replace(engine(), created=ago(seconds=30)).not_warm("EngineStarting"), True),
    ],
    ids=["made before", "made with it", "made with it, asleep", "not warm yet"],
)
async def test_warm_engines_are_not_replaced_for_it(
    bench: Bench, pod: PodWrapper, undone: bool
) -> None:
    serve(bench, replace(pod, created=pod.created or ago(hours=1)))
    edit_template(bench)
    outcome = await bench.apply(DEPLOYED)
    assert bool(outcome.events) is undone
    if not undone:
        outcome = await bench.apply(DEPLOYED)
        (failure,) = outcome.failures
        assert failure.reason == "ChildEdited"
        assert "stays until another revision replaces them" in failure.message


async def test_another_revision_takes_it_out(bench: Bench) -> None:
    serve(bench, replace(engine(), created=ago(seconds=30)).warm())
    edit_template(bench)
    await bench.apply(DEPLOYED)
    assert (await bench.apply(OTHER_REVISION)).events


async def test_what_is_no_part_of_the_pods_replaces_none(bench: Bench) -> None:
    serve(bench, replace(engine(), created=ago(seconds=30)).warm())
    edit(bench, DEPLOYMENT, paused=True)
    assert (await bench.apply(DEPLOYED)).events


async def test_an_object_that_changes_meanwhile_is_looked_at_again(bench: Bench) -> None:
    edit(bench, sessionAffinity="ClientIP")
    bench.kube.fail("patch", "Service", ApiError(409, "Conflict", "modified"))
    with pytest.raises(RetryLater) as raised:
        await bench.apply()
    assert raised.value.delay == CONFLICT_SECONDS
    assert (await bench.apply()).events


async def test_what_was_taken_over_is_taken_out_whatever_happens_between(bench: Bench) -> None:
    edit(bench, sessionAffinity="ClientIP")
    bench.kube.fail("apply", "Service", Unreachable("cut"))
    with pytest.raises(Unreachable):
        await bench.apply()
    stored = bench.kube.find(SERVICE, NAME)
    assert stored is not None
    bench.cache.upsert(SERVICE, stored)
    assert (await bench.apply()).wrote


async def test_an_object_that_goes_meanwhile_is_made_again(bench: Bench) -> None:
    edit(bench, sessionAffinity="ClientIP")
    bench.kube.fail("patch", "Service", ApiError(404, "NotFound", "gone"))
    assert (await bench.apply()).wrote
    assert bench.kube.find(SERVICE, KEY[1]) is not None
