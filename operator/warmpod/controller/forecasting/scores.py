"""How far forecasts were from what came, beside what the schedule and the last season said."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

#: Forecasts that must have been compared before one is followed: an hour of them with season Day.
FEWEST = 12


def pods_for(load: float, per_pod: int) -> int:
    return ceil(load / per_pod) if load > 0 else 0


@dataclass(frozen=True)
class Score:
    """Pods that were said to be needed for one step, and pods that it needed."""

    forecast: int
    scheduled: int
    naive: int | None
    """None where nothing was recorded one season before."""
    needed: int


@dataclass(frozen=True)
class Errors:
    """Mean absolute errors, in pods."""

    samples: int
    forecast: float
    scheduled: float
    naive: float | None

    @property
    def good_enough(self) -> bool:
        return self.samples >= FEWEST and self.forecast <= self.scheduled


class Scores:
    """Of the last season."""

    def __init__(self, season: int, known: Iterable[Score] = ()) -> None:
        self._scores: deque[Score] = deque(known, maxlen=season)

    def add(self, score: Score) -> None:
        self._scores.append(score)

    def clear(self) -> None:
        """What was measured by another number of requests a pod says nothing any more."""
        self._scores.clear()

    def errors(self) -> Errors:
        found = self._scores
        naive = [abs(s.naive - s.needed) for s in found if s.naive is not None]
        return Errors(
            samples=len(found),
            forecast=_mean([abs(s.forecast - s.needed) for s in found]),
            scheduled=_mean([abs(s.scheduled - s.needed) for s in found]),
            naive=_mean(naive) if naive else None,
        )

    def dump(self) -> list[list[int | None]]:
        return [[s.forecast, s.scheduled, s.naive, s.needed] for s in self._scores]


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0
