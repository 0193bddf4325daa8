"""A keyed work queue and the workers that drain it.

A key waits at most once however often it is added, and is never in two workers at a time: what is
added while its key is being worked on comes after that. So a burst of events is one reconcile, and
two reconciles of one key never race.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K")

#: Seconds of the first and the longest back-off of a failing key.
BACKOFF_BASE = 1.0
BACKOFF_MAX = 300.0

logger = logging.getLogger(__name__)


class Timer(Protocol):
    def cancel(self) -> None: ...


#: As `loop.call_later`: seconds, callback.
CallLater = Callable[[float, Callable[[], None]], Timer]


class RetryLater(Exception):
    """The work cannot be done now; try this key again after `delay` seconds."""

    def __init__(self, delay: float, why: str) -> None:
        super().__init__(why)
        self.delay = delay


class WorkQueue(Generic[K]):
    """Not thread-safe: belongs to one event loop."""

    def __init__(
        self,
        call_later: CallLater,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._call_later = call_later
        self._clock = clock
        self._jitter = jitter
        self._order: deque[K] = deque()
        self._waiting: set[K] = set()
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, tuple[float, Timer]] = {}
        self._failures: dict[K, int] = {}
        self._available = asyncio.Event()

    def __len__(self) -> int:
        return len(self._order)

    @property
    def failing(self) -> int:
        """Keys whose latest work failed, and that wait for their back-off."""
        return len(self._failures)

    def add(self, key: K) -> None:
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._order.append(key)
            self._available.set()

    def add_after(self, key: K, delay: float) -> None:
        """Adds the key after `delay` seconds, unless an earlier time is set for it already."""
        due = self._clock() + delay
        timer = self._timers.get(key)
        if timer is not None:
            if timer[0] <= due:
                return
            timer[1].cancel()
        self._timers[key] = (due, self._call_later(delay, lambda: self._due(key)))

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def get(self) -> K:
        """The next key; it stays active until `done`. Its timers are void: whoever takes it
        decides anew when to look again."""
        while not self._order:
            self._available.clear()
            await self._available.wait()
        key = self._order.popleft()
        self._waiting.discard(key)
        self._active.add(key)
        self._cancel(key)
        return key

    def done(self, key: K) -> None:
        self._active.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def retry(self, key: K) -> float:
        """Adds the key after its back-off, and returns that back-off in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # 2**20 s is beyond the cap already; without the bound a key that fails for a year would
        # overflow a float.
        delay = min(BACKOFF_MAX, BACKOFF_BASE * 2.0 ** min(failures, 20))
        # Between half and whole: keys that failed together do not come back together.
        delay *= 0.5 + 0.5 * self._jitter()
        self.add_after(key, delay)
        return delay

    def succeeded(self, key: K) -> None:
        self._failures.pop(key, None)

    def forget(self, key: K) -> None:
        """The key is gone for good."""
        self._failures.pop(key, None)
        self._cancel(key)

    def _cancel(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()


#: Does the work for one key; returns the seconds after which to look again, or None.
Work = Callable[[K], Awaitable[float | None]]
#: Told about each finished piece of work: key, seconds it took, the error or None.
Finished = Callable[[K, float, BaseException | None], None]


async def run_worker(
    queue: WorkQueue[K],
    work: Work[K],
    finished: Finished[K],
    expected: tuple[type[Exception], ...] = (),
) -> None:
    """Takes keys until cancelled. What one key raises stays with that key.

    Errors that are `expected` (the world's, not the program's) are logged without a traceback.
    """
    while True:
        key = await queue.get()
        started = time.monotonic()
        error: BaseException | None = None
        try:
            again = await work(key)
        except RetryLater as later:
            queue.add_after(key, later.delay)
        except Exception as failure:
            error = failure
            delay = queue.retry(key)
            unexpected = not isinstance(failure, expected)
            logger.error("%s: %s; next try in %.1f s", key, failure, delay, exc_info=unexpected)
        else:
            queue.succeeded(key)
            if again is not None:
                queue.add_after(key, again)
        finally:
            queue.done(key)
        finished(key, time.monotonic() - started, error)
