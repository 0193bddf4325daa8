"""Ends a boot that lives, and every process that it leaves behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from warmpod.launcher import processes
from warmpod.launcher.boot import Boot, was_warm
from warmpod.launcher.console import say
from warmpod.launcher.drain import EngineClient, IdleWatch
from warmpod.launcher.mainloop import MainLoop
from warmpod.launcher.policy import Ending

# All times are seconds.
LEFTOVERS_TERM = 5.0
LEFTOVERS_KILL = 10.0
LEFTOVERS_PERIOD = 0.05
# vLLM ignores a first SIGTERM in some of its states; a second one works.
FIRST_TERM = 5.0
SECOND_TERM = 10.0


class Shutdown:
    """Ends processes, politely first."""

    def __init__(
        self,
        loop: MainLoop,
        client: EngineClient,
        run_dir: Path,
        drain_seconds: float,
        spared: Callable[[], int],
    ) -> None:
        """`spared` gives the pid of a process that is none of a boot's, or 0."""
        self._loop = loop
        self._client = client
        self._run_dir = run_dir
        self._drain_seconds = drain_seconds
        self._spared = spared

    def end(self, boot: Boot) -> None:
        """End a living boot because the launcher was told to stop, or asked to end it."""
        if boot.asked:
            self._terminate(boot)
        elif self._serves(boot):
            self._drain(boot)
            self._terminate(boot)
        else:
            # Nobody is served yet, and vLLM would ignore a polite signal while it starts.
            processes.send_group(boot.pid, signal.SIGKILL)
        self._loop.wait(SECOND_TERM, lambda: boot.ending is not None)
        if boot.ending is None:
            # The kernel cannot kill it, for example while a driver call hangs.
            boot.end(Ending(self._loop.cause(boot)))

    def _serves(self, boot: Boot) -> bool:
        known = boot.listener.ready.is_set() or was_warm(self._run_dir, boot.id)
        return known or self._client.answers()

    def _drain(self, boot: Boot) -> None:
        boot.tell("draining")
        idle = IdleWatch(self._client, self._loop.wakeups.wake)
        idle.start()
        self._loop.wait(
            self._drain_seconds,
            lambda: (
                idle.result is not None
                or boot.ending is not None
                or boot.processes.dead is not None
                or self._loop.stop_requests > 1
            ),
        )
        idle.cancel()

    def _terminate(self, boot: Boot) -> None:
        for seconds in (FIRST_TERM, SECOND_TERM):
            if boot.ending is None:
                processes.send(boot.pid, signal.SIGTERM)
                self._loop.wait(seconds, lambda: boot.ending is not None)
        if boot.ending is None:
            processes.send_group(boot.pid, signal.SIGKILL)

    def clear_leftovers(self) -> None:
        """End every process that is left: the next boot needs their memory and their port."""
        politely = 0.0 if self._loop.stop_requests else LEFTOVERS_TERM
        if self._end_all(signal.SIGTERM, politely) or self._end_all(signal.SIGKILL, LEFTOVERS_KILL):
            return
        left = ", ".join(map(str, sorted(self._leftovers())))
        say(f"processes of the last boot cannot be killed: {left}")

    def _end_all(self, number: signal.Signals, seconds: float) -> bool:
        """Signal every descendant once, also those that are forked meanwhile."""
        deadline = time.monotonic() + seconds
        signalled: set[int] = set()
        while left := self._leftovers():
            for pid in left - signalled:
                processes.send(pid, number)
            signalled |= left
            if time.monotonic() >= deadline:
                return False
            self._loop.step(LEFTOVERS_PERIOD)
        return True

    def _leftovers(self) -> set[int]:
        """The processes below the launcher that still run."""
        spared = 0 if self._loop.stop_requests else self._spared()
        found = processes.descendants(os.getpid())
        kept = {spared, *(process.pid for process in processes.below(spared, found))}
        return {process.pid for process in found if process.alive} - kept
