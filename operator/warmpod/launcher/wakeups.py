"""Lets the main thread sleep until a signal, a process's death or another thread wakes it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
FORWARDED_SIGNALS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
HANDLED_SIGNALS = (*STOP_SIGNALS, *FORWARDED_SIGNALS, signal.SIGCHLD)
_WAKE = b"\0"


class Wakeups:
    """A pipe that Python's signal machinery and other threads write to."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)

    def install(self) -> None:
        """Take over the signals; only the main thread may do this."""
        for number in HANDLED_SIGNALS:
            # The handler does nothing: it only keeps the default action away. The number of the
            # signal arrives through the pipe.
            signal.signal(number, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)

    def wake(self) -> None:
        """End the current or next wait; any thread may call it."""
        try:
            os.write(self._write_end, _WAKE)
        except BlockingIOError:
            # The pipe is full, so the main thread has enough reason to wake already.
            return

    def wait(self, seconds: float, descriptors: Iterable[int] = ()) -> list[int]:
        """Sleep until something happens, at most `seconds`; returns the signals received."""
        poll = select.poll()
        for descriptor in (self._read_end, *descriptors):
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
        try:
            return [number for number in os.read(self._read_end, 4096) if number]
        except BlockingIOError:
            return []
