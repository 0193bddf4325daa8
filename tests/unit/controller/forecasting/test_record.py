"""Forecasts against what came: when one is followed, and when it is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import sin
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.controller.builders import warm_model
from warmpod.api import WarmModel, WarmModelStatus
from warmpod.controller import demand
from warmpod.controller.demand import Known
from warmpod.controller.forecasting import judge
from warmpod.controller.forecasting.process import Answer, Failed, Task
from warmpod.controller.forecasting.record import Record
from warmpod.controller.forecasting.scores import FEWEST, Score, Scores
from warmpod.controller.forecasting.series import SHAPES

START = datetime(2030, 1, 1, tzinfo=UTC)
SHAPE = SHAPES["Day"]
STEP = timedelta(seconds=SHAPE.step)


def model(mode: str = "Scale", **more: Any) -> WarmModel:
    forecast = {"mode": mode, "requestsPerPod": 4, "maxReplicas": 8}
    return WarmModel.parse(warm_model(forecast=forecast, **more))


class Days:
    """Time goes by step by step: a load, and an answer of the library."""

    def __init__(self, found: WarmModel | None = None) -> None:
        self.model = found or model()
        self.record = Record("Day", 4, START)
        self.now = START

    def pass_step(self, load: float | None, answer: float | Failed | None = None) -> None:
        """`answer`: every step of the forecast that is made at the end of this one."""
        if load is not None:
            self.record.series.add(load, self.now)
        self.now += STEP
        assert self.record.due(self.model.spec.forecast, self.now)
        self.record.close(self.model, self.now)
        task = self.record.task(60, self.now)
        if task is not None and answer is not None:
            self.record.take(self.model, task, self._answer(task, answer), self.now)

    @staticmethod
    def _answer(task: Task, answer: float | Failed) -> Answer:
        return answer if isinstance(answer, Failed) else [answer] * task.steps

    def pass_days(self, days: int, load: float = 4) -> None:
        for _ in range(days * SHAPE.season):
            self.pass_step(load)

    @property
    def outlook(self) -> demand.Outlook:
        assert self.record.judgement is not None
        return self.record.judgement.outlook

    @property
    def status(self) -> dict[str, Any]:
        assert self.record.judgement is not None
        return dict(self.record.judgement.status)

    def asked(self) -> int:
        return demand.of(self.model, self.now, Known(outlook=self.outlook)).serving


@pytest.fixture(scope="module")
def recorded() -> str:
    days = Days()
    days.pass_days(2)
    return days.record.series.dump()


@pytest.fixture
def days(recorded: str) -> Days:
    found = Days()
    found.now += 2 * SHAPE.season * STEP
    found.record.series.load(recorded)
    return found


def test_two_seasons_are_recorded_first() -> None:
    days = Days()
    days.pass_step(4, 100)
    assert days.outlook.reason == "CollectingLoad"
    assert "48 more hours" in days.outlook.why
    assert days.asked() == 1


def test_one_that_proves_good_is_followed(days: Days) -> None:
    for _ in range(FEWEST + 2):
        days.pass_step(20, 20)  # five pods, of which the spec has one
    assert days.outlook.trusted
    assert days.asked() == 5
    assert days.status["followed"] is True
    assert (days.status["errorPods"], days.status["scheduleErrorPods"]) == ("0.00", "4.00")
    assert days.status["naiveErrorPods"] == "4.00"


def test_before_enough_was_compared_it_is_not(days: Days) -> None:
    for _ in range(FEWEST - 2):
        days.pass_step(20, 20)
    assert days.outlook.reason == "CollectingLoad"
    assert days.asked() == 1


def test_one_that_is_worse_than_the_schedule_is_not_followed(days: Days) -> None:
    for _ in range(FEWEST + 2):
        days.pass_step(4, 40)
    assert (days.outlook.trusted, days.outlook.reason) == (False, "ForecastWorse")
    assert days.asked() == 1
    for _ in range(3 * FEWEST):  # and is again, once it has been better for long enough
        days.pass_step(40, 40)
    assert days.outlook.trusted
    assert days.asked() == 8  # maxReplicas


def test_observing_does_nothing(days: Days) -> None:
    days.model = model("Observe")
    for _ in range(FEWEST + 2):
        days.pass_step(20, 20)
    assert days.outlook.reason == "ForecastObserved"
    assert (days.status["pods"], days.status["followed"], days.asked()) == (5, False, 1)


def test_one_that_fails_changes_nothing(days: Days) -> None:
    for _ in range(FEWEST + 2):
        days.pass_step(20, 20)
    days.pass_step(20, Failed("LinAlgError: singular"))
    assert days.outlook.reason == "ForecastFailed"
    assert "LinAlgError" in days.outlook.why
    assert days.asked() == 1


def test_steps_without_samples_are_not_compared(days: Days) -> None:
    for _ in range(FEWEST + 2):
        days.pass_step(None, 20)
    assert days.record.errors.samples == 0
    assert days.status["load"] == 4  # the season before


def test_half_of_the_time_is_enough_and_less_is_not(days: Days) -> None:
    for _ in range(SHAPE.season):
        days.pass_step(None)
    assert judge.missing_steps(days.record.series.closed(days.now), SHAPE) == 0
    days.pass_step(None)
    assert days.outlook.reason == "CollectingLoad"


def test_another_size_of_pods_begins_to_compare_anew(days: Days) -> None:
    for _ in range(FEWEST + 2):
        days.pass_step(20, 20)
    forecast = {"mode": "Scale", "requestsPerPod": 10, "maxReplicas": 8}
    days.model = WarmModel.parse(warm_model(forecast=forecast))
    days.pass_step(20, 20)
    assert days.record.errors.samples == 1


def test_what_is_stored_is_taken_up(days: Days) -> None:
    for _ in range(FEWEST + 2):
        days.pass_step(20, 20)
    successor = Days()
    successor.record.restore(days.record.stored())
    assert successor.record.errors == days.record.errors
    successor.now = days.now
    assert successor.record.series.closed(days.now) == days.record.series.closed(days.now)
    other = Record("Week", 4, START)
    other.restore(days.record.stored())
    assert other.series.closed(days.now) == ()


@pytest.mark.parametrize("score", [[], [1, 2, 3], ["1", 2, None, 3], [1, 2, 3.5, 4]])
def test_a_stored_score_that_cannot_be_read_is_refused(days: Days, score: list[Any]) -> None:
    stored = days.record.stored()
    broken = type(stored)(stored.season, stored.per_pod, stored.series, [score])
    with pytest.raises(ValueError, match="score"):
        Record("Day", 4, START).restore(broken)


def test_scores_are_those_of_the_last_season() -> None:
    scores = Scores(3)
    for needed in range(10):
        scores.add(Score(forecast=needed, scheduled=0, naive=None, needed=needed))
    errors = scores.errors()
    assert (errors.samples, errors.forecast, errors.scheduled, errors.naive) == (3, 0, 8, None)


@pytest.mark.parametrize(
    ("start_seconds", "steps"), [(0, 1), (60, 2), (300, 2), (301, 3), (None, 2), (10**9, 13)]
)
def test_a_forecast_covers_what_pods_take_to_start(start_seconds: float, steps: int) -> None:
    assert judge.steps_ahead(SHAPE, start_seconds) == steps


loads = st.one_of(st.none(), st.floats(0, 1e9))
answers = st.one_of(st.builds(Failed, st.text(max_size=10)), st.floats(0, 1e9))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(loads, answers), max_size=40), st.integers(0, 20))
def test_whatever_comes_never_less_than_the_spec_and_a_valid_status(
    steps: list[tuple[float | None, float | Failed]], replicas: int
) -> None:
    days = Days(model(replicas=replicas))
    for step in range(2 * SHAPE.season):
        days.record.series.add(10 + 10 * sin(step / 40), days.now)
        days.now += STEP
    for load, answer in steps:
        days.pass_step(load, answer)
        found = demand.of(days.model, days.now, Known(outlook=days.outlook))
        assert replicas <= found.serving <= max(replicas, 8)
        WarmModelStatus.model_validate({"forecast": days.status})
