"""What the working thread is doing, as the event loop sees it."""

from __future__ import annotations

import threading
from enum import StrEnum


class Stage(StrEnum):
    VERIFYING = "verifying"
    LOADING = "loading"
    CHECKED = "checked"


class Cancelled(Exception):
    """The process is stopping; the work was given up between two pieces."""


class Progress:
    """Counts bytes from several threads, and carries the wish to stop into them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.stage = Stage.VERIFYING
        self.total = 0
        self.done = 0

    def snapshot(self) -> tuple[Stage, int, int]:
        """Stage, bytes done, bytes in all."""
        with self._lock:
            return self.stage, self.done, self.total

    def finish(self) -> None:
        with self._lock:
            self.stage = Stage.CHECKED

    def begin(self, stage: Stage, total: int) -> None:
        with self._lock:
            self.stage = stage
            self.total = total
            self.done = 0

    def watch(self, count: int) -> None:
        """A Watch: raises Cancelled once `stop` was called."""
        if self._stop.is_set():
            raise Cancelled
        with self._lock:
            self.done += count

    def pause(self, seconds: float) -> None:
        """Sleep, but wake and raise Cancelled when the process stops."""
        if self._stop.wait(seconds):
            raise Cancelled

    def stop(self) -> None:
        self._stop.set()
