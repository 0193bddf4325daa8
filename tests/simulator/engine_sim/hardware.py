"""How long the simulated GPU takes. Everything about time stands here; nothing here waits."""

from __future__ import annotations

from engine_sim.knobs import Knobs
from engine_sim.words import Draws

# A request that never converges takes from one to so many times its steady time.
WALK = 6.0
# A latency that falls for ever starts with so many times `first_seconds` and halves by this many
# requests, then by twice as many, and so on: no round agrees with the one before.
FALL_TIMES = 4.0
FALL_REQUESTS = 8


class Hardware:
    """Times in seconds, from the knobs and the fault."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._draws = Draws("hardware")
        self._walk = 1.0
        self._schemas: set[str] = set()

    def prefill(self, number: int, cold: int, computed_tokens: int, others: int) -> float:
        """Until the first token step of a request.

        `number`: the place of the request among those of its kind, from 1.
        `cold`: how often the coldest of its buckets was used before, or -1 when all are warm.
        `others`: how many requests run besides."""
        knobs = self._knobs
        seconds = knobs.prefill_seconds * computed_tokens / 1000
        if cold >= 0:
            seconds += knobs.first_seconds * knobs.cold_decay**cold
        return self._noisy(seconds) + self._faulty(number, others)

    def schema(self, constraint: str) -> float:
        """The grammar of a schema is compiled once a process, whatever caches there are."""
        if not constraint or constraint in self._schemas:
            return 0.0
        self._schemas.add(constraint)
        return self._knobs.schema_seconds

    def token(self) -> float:
        """One token step."""
        return self._noisy(self._knobs.token_seconds)

    def _noisy(self, seconds: float) -> float:
        spread = self._knobs.jitter * (2 * self._draws.fraction() - 1)
        return max(0.0, seconds * (1 + spread))

    def _faulty(self, number: int, others: int) -> float:
        fault, first = self._knobs.fault, self._knobs.first_seconds
        if fault.name == "slow-under-load":
            return others * fault.count / 1000
        if fault.name == "never-converges":
            self._walk = min(WALK, max(0.0, self._walk + 4 * self._draws.fraction() - 2))
            return first * self._walk
        if fault.name == "falls-for-ever":
            return first * FALL_TIMES * FALL_REQUESTS / (FALL_REQUESTS + number)
        return 0.0
