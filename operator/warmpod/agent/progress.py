"""What the working thread is doing, as the event loop sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

STEPS = 10


class Stage(StrEnum):
    STAGING = "staging"
    VERIFYING = "verifying"
    LOADING = "loading"
    CHECKED = "checked"


class Cancelled(Exception):
    """The process is stopping; the work was given up between two pieces."""


@dataclass(frozen=True)
class Snapshot:
    """`done` of `total` bytes of this stage; `step` tenths of it were done when `rate`, in bytes
    a second, was last measured (0: not yet)."""

    stage: Stage
    total: int = 0
    done: int = 0
    step: int = 0
    rate: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """As it looked at the last step; None while nobody can tell."""
        if not self.rate:
            return None
        return self.total * (STEPS - self.step) / STEPS / self.rate


class Progress:
    """Counts bytes from several threads, and carries the wish to stop into them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._now = Snapshot(Stage.VERIFYING)
        self._measured_at = clock()
        self._measured_done = 0

    def snapshot(self) -> Snapshot:
        with self._lock:
            return self._now

    def finish(self) -> None:
        with self._lock:
            self._now = Snapshot(Stage.CHECKED)

    def begin(self, stage: Stage, total: int) -> None:
        with self._lock:
            self._now = Snapshot(stage, total)
            self._measured_at = self._clock()
            self._measured_done = 0

    def watch(self, count: int) -> None:
        """A Watch: raises Cancelled once `stop` was called."""
        if self._stop.is_set():
            raise Cancelled
        with self._lock:
            now = self._now
            done = now.done + count
            step = min(STEPS * done // now.total, STEPS) if now.total else 0
            rate = self._measure(done) if step != now.step else now.rate
            self._now = Snapshot(now.stage, now.total, done, step, rate)

    def pause(self, seconds: float) -> None:
        """Sleep, but wake and raise Cancelled when the process stops."""
        if self._stop.wait(seconds):
            raise Cancelled

    def stop(self) -> None:
        self._stop.set()

    def _measure(self, done: int) -> float:
        """The rate since it was last measured, which says more of what comes than the average."""
        now = self._clock()
        took, read = now - self._measured_at, done - self._measured_done
        self._measured_at, self._measured_done = now, done
        return read / took if took > 0 else 0.0
