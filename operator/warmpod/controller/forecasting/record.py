"""What is known of one WarmModel's load: recorded, forecast, compared. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from warmpod.api import WarmModel
from warmpod.api.forecast import Forecast
from warmpod.controller import demand
from warmpod.controller.forecasting import judge
from warmpod.controller.forecasting.judge import Judgement
from warmpod.controller.forecasting.process import Answer, Failed, Task
from warmpod.controller.forecasting.scores import Errors, Score, Scores, pods_for
from warmpod.controller.forecasting.series import SHAPES, Series, filled
from warmpod.controller.forecasting.storage import Stored

#: Steps for which pods that were expected to be needed are kept.
HELD = 3


@dataclass(frozen=True)
class _Said:
    """About one step, before it came."""

    load: float
    scheduled: int


class Record:
    def __init__(self, season: str, per_pod: int, begun: datetime) -> None:
        self.season = season
        self.shape = SHAPES[season]
        self.series = Series(self.shape)
        self.judgement: Judgement | None = None
        self._scores = Scores(self.shape.season)
        self._per_pod = per_pod
        self._said: dict[int, _Said] = {}
        self._step = self.series.number(begun)
        self._judged_by: Forecast | None = None
        #: What was expected of late: what is dropped at once is needed again at the next wobble.
        self._expected: deque[float] = deque(maxlen=HELD)

    def due(self, spec: Forecast, now: datetime) -> bool:
        """Whether a step has ended since the last round, or there was none yet for this spec: what
        an earlier operator recorded is good for a forecast at once."""
        return spec != self._judged_by or self.series.number(now) != self._step

    def restore(self, stored: Stored) -> None:
        """Raises ValueError. Of another season nothing can be used."""
        if stored.season != self.season:
            return
        self.series.load(stored.series)
        if stored.per_pod == self._per_pod:
            self._scores = Scores(self.shape.season, [Score(*_whole(s)) for s in stored.scores])

    def stored(self) -> Stored:
        return Stored(self.season, self._per_pod, self.series.dump(), self._scores.dump())

    @property
    def errors(self) -> Errors:
        return self._scores.errors()

    def close(self, model: WarmModel, now: datetime) -> None:
        """What was said of steps that have ended is compared with what came."""
        self._step = self.series.number(now)
        self._judged_by = model.spec.forecast
        per_pod = model.spec.forecast.requests_per_pod or 1
        if per_pod != self._per_pod:
            self._per_pod = per_pod
            self._scores.clear()
        for number in sorted(self._said):
            if number < self._step:
                self._score(number, self._said.pop(number))

    def _score(self, number: int, said: _Said) -> None:
        came = self.series.at(number)
        if came is None:
            return
        before = self.series.at(number - self.shape.season)
        self._scores.add(
            Score(
                forecast=pods_for(said.load, self._per_pod),
                scheduled=said.scheduled,
                naive=None if before is None else pods_for(before, self._per_pod),
                needed=pods_for(came, self._per_pod),
            )
        )

    def task(self, start_seconds: float | None, now: datetime) -> Task | None:
        """What is to be computed; None, with a judgement, while too little is recorded."""
        values = self.series.closed(now)
        missing = judge.missing_steps(values, self.shape)
        whole = filled(values, self.shape.season)
        if missing or whole is None:
            self.judgement = judge.collecting(missing, self._last(values), self.shape, now)
            return None
        ahead = judge.steps_ahead(self.shape, start_seconds)
        return Task(whole, self.shape.season, ahead)

    def take(self, model: WarmModel, task: Task, answer: Answer, now: datetime) -> None:
        load = task.values[-1]
        if isinstance(answer, Failed):
            self.judgement = judge.failed(answer.why, load, self.shape, now)
            return
        number = self._step + task.steps - 1
        scheduled = demand.scheduled(model, self.series.time(number))
        self._said[number] = _Said(answer[-1], scheduled)
        self._expected.append(max(answer))
        expected = max(self._expected)
        self.judgement = judge.judge(
            model.spec.forecast, expected, load, self.errors, self.shape, task.steps, now
        )

    @staticmethod
    def _last(values: Sequence[float | None]) -> float | None:
        return values[-1] if values else None


def _whole(score: object) -> tuple[int, int, int | None, int]:
    match score:
        case [int(forecast), int(scheduled), int() | None as naive, int(needed)]:
            return (forecast, scheduled, naive, needed)
    raise ValueError(f"a stored score cannot be read: {score!r}")
