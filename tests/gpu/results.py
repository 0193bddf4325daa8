"""What one measurement has found so far: written as soon as it is known, and bounded in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from gpu import runner

JsonObject = dict[str, Any]
REPEATS = 5


class Results:
    def __init__(
        self,
        step: str,
        budget_s: float,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str, JsonObject], None] = runner.write,
    ) -> None:
        """`budget_s`: after that much of the step no further repeat is begun."""
        self.found: JsonObject = {}
        self._step = step
        self._budget_s = budget_s
        self._clock = clock
        self._write = write
        self._begun = clock()

    def note(self, **facts: Any) -> None:
        self.found |= facts
        self._save()

    def add(self, series: str, item: Any) -> None:
        """To the list of that name."""
        self.found.setdefault(series, []).append(item)
        self._save()

    def repeats(self, most: int = REPEATS) -> Iterator[int]:
        """Numbers of the repeats for which there is time, if each takes as long as the longest one
        so far. The first is always done."""
        longest = 0.0
        for number in range(most):
            started = self._clock()
            if number and started - self._begun + longest > self._budget_s:
                self.note(left_out=f"{most - number} of {most} repeats, for lack of time")
                return
            yield number
            longest = max(longest, self._clock() - started)

    def _save(self) -> None:
        self._write(self._step, {"state": runner.RUNNING, "result": self.found})
