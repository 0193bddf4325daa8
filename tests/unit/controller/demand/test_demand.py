"""How many pods are asked for, by spec, schedule and forecast."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.controller.builders import NOW, World, engine, prefetch, warm_model
from warmpod import reasons
from warmpod.api import WarmModel
from warmpod.controller import demand
from warmpod.controller.demand import Demand, Known, Outlook
from warmpod.controller.demand.windows import measured_start

# NOW is Tuesday, 1 January 2030, 12:00Z.
SOON = {"name": "soon", "cron": "10 12 * * *", "durationSeconds": 3600, "replicas": 4}
RUNNING = {"name": "running", "cron": "0 11 * * *", "durationSeconds": 7200, "replicas": 3}
SCALE = {"mode": "Scale", "requestsPerPod": 4, "maxReplicas": 8}


def parsed(*schedule: dict[str, Any], **spec: Any) -> WarmModel:
    return WarmModel.parse(warm_model(schedule=list(schedule), **spec))


def outlook(pods: int, *, trusted: bool = True, minutes: float = 10) -> Outlook:
    until = NOW + timedelta(minutes=minutes)
    return Outlook(pods, trusted, reasons.FORECAST_LOW, "little is expected", until)


def asked(model: WarmModel, minutes: float = 0, known: Known | None = None) -> Demand:
    return demand.of(model, NOW + timedelta(minutes=minutes), known)


@pytest.mark.parametrize(
    ("schedule", "minutes", "serving", "due", "reason"),
    [
        ([], 0, 1, 1, "NothingAhead"),
        ([SOON], 0, 1, 1, "AsSpecified"),
        ([SOON], 5, 4, 1, "ScheduleActive"),  # 300 s ahead, as long as nothing was measured
        ([SOON], 10, 4, 4, "ScheduleActive"),
        ([SOON], 69, 4, 4, "ScheduleActive"),
        ([SOON], 70, 1, 1, "AsSpecified"),
        ([RUNNING], 0, 3, 3, "ScheduleActive"),
        ([RUNNING, SOON], 20, 4, 4, "ScheduleActive"),
        ([RUNNING, {**SOON, "replicas": 2}], 20, 3, 3, "ScheduleActive"),
        ([RUNNING, {**SOON, "timeZone": "Mars/Base"}], 20, 3, 3, "InvalidSchedule"),
        ([{**RUNNING, "replicas": 0}], 0, 1, 1, "AsSpecified"),
    ],
)
def test_schedules(
    schedule: list[dict[str, Any]], minutes: float, serving: int, due: int, reason: str
) -> None:
    found = asked(parsed(*schedule), minutes)
    assert (found.serving, found.due, found.reason) == (serving, due, reason)
    assert found.raised == (serving > 1)


def test_standby_is_raised_apart() -> None:
    entry = {"name": "standby", "cron": "0 11 * * *", "durationSeconds": 7200, "standby": 2}
    found = asked(parsed(entry))
    assert (found.serving, found.standby, found.pods) == (1, 2, 3)
    assert found.raised


@pytest.mark.parametrize(
    ("entry", "known", "from_minute"),
    [
        (SOON, Known(), 5),
        (SOON, Known(start_seconds=90), 8.5),
        (SOON, Known(start_seconds=100_000), -50),  # at most an hour
        ({**SOON, "leadSeconds": 0}, Known(start_seconds=90), 10),
        ({**SOON, "leadSeconds": 1200}, Known(), -10),
    ],
)
def test_pods_are_asked_for_ahead(entry: dict[str, Any], known: Known, from_minute: float) -> None:
    model = parsed(entry)
    assert asked(model, from_minute - 0.1, known).serving == 1
    assert asked(model, from_minute, known).serving == 4


def test_the_slowest_start_of_a_pod_is_the_lead() -> None:
    startups = [
        {"cause": "pod-start", "startSeconds": 40},
        {"cause": "pod-start", "startSeconds": 65},
        {"cause": "engine-died", "startSeconds": 900},
        {"cause": "pod-start"},
    ]
    assert measured_start(startups) == 65
    assert measured_start([]) is None


@pytest.mark.parametrize(
    ("forecast", "said", "minutes", "serving", "reason"),
    [
        (SCALE, outlook(5), 0, 5, "ForecastActive"),
        (SCALE, outlook(50), 0, 8, "ForecastActive"),
        (SCALE, outlook(0), 0, 3, "ScheduleActive"),
        (SCALE, outlook(5, trusted=False), 0, 3, "ScheduleActive"),
        (SCALE, outlook(5, minutes=10), 11, 3, "ScheduleActive"),
        (SCALE, None, 0, 3, "ScheduleActive"),
        ({**SCALE, "mode": "Observe"}, outlook(5), 0, 3, "ScheduleActive"),
        ({**SCALE, "mode": "Off"}, outlook(5), 0, 3, "ScheduleActive"),
        (SCALE, outlook(1), 120, 1, "CollectingLoad"),
    ],
)
def test_forecasts(
    forecast: dict[str, Any], said: Outlook | None, minutes: float, serving: int, reason: str
) -> None:
    found = asked(parsed(RUNNING, forecast=forecast), minutes, Known(outlook=said))
    assert (found.serving, found.reason) == (serving, reason)
    assert found.due <= max(3, 1)  # nothing that is forecast is due


def test_why_is_told() -> None:
    told = asked(parsed(RUNNING, SOON)).why
    assert "Schedule running asks for at least 3 serving pods until 2030-01-01T13:00:00Z" in told
    assert "Schedule soon begins at 2030-01-01T12:10:00Z" in told
    assert "300 s before" in told


def test_what_means_nothing_is_told_with_field_and_remedy() -> None:
    entry = {**SOON, "cron": "0 17-8 * * *"}
    told = asked(parsed(RUNNING, entry)).why
    assert told.startswith("spec.schedule[1].cron of soon: '0 17-8 * * *' is not a time")
    assert "correct it" in told


def world(*schedule: dict[str, Any]) -> World:
    model = warm_model(schedule=list(schedule))
    ready = replace(World(), model=model).store().prefetching(1, prefetch().resident())
    return ready.deployed(engine().warm())


def test_the_plan_asks_for_the_pods_and_looks_again_in_time() -> None:
    before = world(SOON).plan()
    assert before.requeue_after == 300
    during = world(SOON).plan(NOW + timedelta(minutes=6))
    (workload,) = [obj for obj in during.apply if obj["kind"] == "Deployment"]
    assert workload["spec"]["replicas"] == 4
    assert during.requeue_after == 240


def test_ready_does_not_wait_for_pods_before_their_window() -> None:
    ahead = world(SOON).conditions(NOW + timedelta(minutes=6))
    assert ahead["Ready"]["status"] == "True"
    assert (ahead["ScaledAhead"]["status"], ahead["ScaledAhead"]["reason"]) == (
        "True",
        "ScheduleActive",
    )
    begun = world(SOON).conditions(NOW + timedelta(minutes=11))
    assert begun["Ready"]["status"] == "False"


def test_schedule_and_forecast_are_no_part_of_a_revision() -> None:
    assert world(SOON).hash == World().hash
    assert World(model=warm_model(forecast=SCALE)).hash == World().hash


entries = st.builds(
    lambda number, minute, hour, minutes, replicas, standby, zone: {
        "name": f"entry-{number}",
        "cron": f"{minute} {hour} * * *",
        "durationSeconds": minutes * 60,
        "replicas": replicas,
        "standby": standby,
        "timeZone": zone,
    },
    st.integers(0, 9),
    st.sampled_from(["0", "17", "*/20"]),
    st.sampled_from(["*", "2", "11-13", "23"]),
    st.integers(1, 3000),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "No/Where"]),
)
outlooks = st.one_of(
    st.none(),
    st.builds(
        lambda pods, trusted, minutes: outlook(pods, trusted=trusted, minutes=minutes),
        st.integers(0, 10**6),
        st.booleans(),
        st.integers(-100, 100),
    ),
)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(entries, max_size=5),
    outlooks,
    st.integers(0, 6),
    st.sampled_from(["Off", "Observe", "Scale"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(-400 * 24 * 60, 400 * 24 * 60),
)
def test_never_below_the_spec_and_the_same_until_told(
    schedule: list[dict[str, Any]],
    said: Outlook | None,
    replicas: int,
    mode: str,
    share: float,
    minutes: int,
) -> None:
    model = parsed(*schedule, replicas=replicas, forecast={**SCALE, "mode": mode})
    known = Known(outlook=said)
    now = NOW + timedelta(minutes=minutes)
    found = demand.of(model, now, known)
    assert found.serving >= found.due >= replicas
    assert found.standby >= 0
    assert found.serving <= max([replicas, 8, *(entry["replicas"] for entry in schedule)])
    if found.changes_at is not None:
        assert found.changes_at > now
        # Windows of one entry that overlap are told one after another, so only what is asked for.
        just_before = found.changes_at - timedelta(microseconds=1)
        at = min(just_before, now + share * (found.changes_at - now))
        later = demand.of(model, at, known)
        assert (later.serving, later.standby, later.due) == (
            found.serving,
            found.standby,
            found.due,
        )
