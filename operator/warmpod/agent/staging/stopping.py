"""The wish to stop, carried into every thread and every wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from warmpod.weights.hashing import Watch

Result = TypeVar("Result")

LOOK_SECONDS = 0.1


class Abandoned(Exception):
    """Another thread failed, so the work of this one is of no use any more."""


class Stop:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        self._abandoned.set()

    def check(self) -> None:
        """Raises Abandoned, or what the watch raises."""
        if self._abandoned.is_set():
            raise Abandoned
        self.watch(0)

    def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            self._abandoned.wait(min(left, LOOK_SECONDS))
        self.check()

    def during(
        self, call: Callable[[], Result], discard: Callable[[Result], None] = lambda _: None
    ) -> Result:
        """The result of a call that blocks on the network and cannot be interrupted. It is left
        behind in a thread of its own when the work stops; its result then goes to `discard`."""
        future: Future[Result] = Future()
        threading.Thread(target=_run, args=(call, future), daemon=True).start()
        try:
            while not wait((future,), LOOK_SECONDS).done:
                self.check()
        except BaseException:
            future.add_done_callback(lambda done: _discard(done, discard))
            raise
        return future.result()


def _run(call: Callable[[], Result], future: Future[Result]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)


def _discard(future: Future[Result], discard: Callable[[Result], None]) -> None:
    if future.exception() is None:
        discard(future.result())
