"""Lets time pass in the main thread, the only one that starts, signals and collects processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from warmpod.launcher import processes
from warmpod.launcher.boot import Boot, was_warm
from warmpod.launcher.policy import Ending, worker_death_ends_boot
from warmpod.launcher.wakeups import FORWARDED_SIGNALS, STOP_SIGNALS, Wakeups

STEP_SECONDS = 1.0


class MainLoop:
    """Takes note of signals and of deaths while it waits."""

    def __init__(self, wakeups: Wakeups, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.wakeups = wakeups
        self.boot: Boot | None = None  # the one that runs
        self.stop_requests = 0

    def sleep_unless_stopped(self, seconds: float) -> bool:
        """Sleep; False as soon as the launcher was told to stop."""
        self.wait(seconds, lambda: self.stop_requests > 0)
        return self.stop_requests == 0

    def wait(self, seconds: float | None, until: Callable[[], bool]) -> None:
        """Let time pass until the condition holds, at most `seconds` if given."""
        deadline = None if seconds is None else time.monotonic() + seconds
        self.step(0.0)
        while not until():
            left = STEP_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return
            self.step(min(left, STEP_SECONDS))

    def step(self, seconds: float) -> None:
        """Sleep until something happens, at most `seconds`, and take note of it."""
        boot = self.boot
        descriptors = boot.processes.pidfds() if boot is not None else []
        received = self.wakeups.wait(seconds, descriptors)
        ended = processes.reap()
        if boot is not None and boot.ending is None:
            self._judge(boot, ended)
        for number in received:
            if number in STOP_SIGNALS:
                self.stop_requests += 1
            elif number in FORWARDED_SIGNALS and boot is not None and boot.ending is None:
                processes.send(boot.pid, signal.Signals(number))

    def cause(self, boot: Boot) -> str:
        """Why the boot's main process ends now."""
        return "stopping" if self.stop_requests else boot.asked or "exited"

    def _judge(self, boot: Boot, ended: dict[int, int]) -> None:
        """End the boot if its processes say so."""
        cause = self.cause(boot)
        if boot.pid in ended:
            boot.end(ending_of(cause, ended[boot.pid]))
            return
        death = boot.processes.check(boot.pid)
        if death is None or cause != "exited":
            return
        up = boot.listener.ready.is_set() or was_warm(self._run_dir, boot.id)
        if worker_death_ends_boot(up, time.monotonic() - death.seen_at):
            # Killed together, the main process may have ended after the last look at it.
            status = processes.reap().get(boot.pid)
            boot.end(death.ending if status is None else ending_of(cause, status))


def ending_of(cause: str, status: int) -> Ending:
    """Read a wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return Ending(cause, signal=-code)
    return Ending(cause, exit_code=code)
