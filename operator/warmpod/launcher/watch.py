"""Watches the processes below the engine's main process, and among them vLLM's own workers.

When a worker dies, the engine is dead; vLLM's own watchdog takes 4 to 7 s to act on it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass

from warmpod.launcher.policy import Ending
from warmpod.launcher.processes import (
    Process,
    descendants,
    is_engine_process,
    open_pidfd,
    read_process,
)

SCAN_PERIOD_SECONDS = 1.0


@dataclass(frozen=True)
class WorkerDeath:
    """The first death of a worker process; `seen_at` is on the monotonic clock."""

    ending: Ending
    seen_at: float


class EngineProcesses:
    """The worker processes seen so far, each with a pidfd where the kernel gives one."""

    def __init__(self, look: Callable[[list[Process]], None]) -> None:
        """`look` is shown all processes below the engine at each scan."""
        self._look = look
        self._pidfds: dict[int, int | None] = {}
        self._next_scan = 0.0
        self.dead: WorkerDeath | None = None

    def pidfds(self) -> list[int]:
        """Descriptors that become readable when a worker process dies."""
        return [pidfd for pidfd in self._pidfds.values() if pidfd is not None]

    def check(self, main_pid: int) -> WorkerDeath | None:
        """Look whether a worker process below `main_pid` has died, and now and then for new ones.

        After the first death nothing is watched any more.
        """
        if self.dead is None:
            ending = self._find_death()
            if ending is not None:
                self.dead = WorkerDeath(ending, time.monotonic())
                self.close()
            elif time.monotonic() >= self._next_scan:
                self._scan(main_pid)
                self._next_scan = time.monotonic() + SCAN_PERIOD_SECONDS
        return self.dead

    def _scan(self, main_pid: int) -> None:
        found = descendants(main_pid)
        self._look(found)
        for process in found:
            if process.pid not in self._pidfds and process.alive:
                self._consider(process.pid)

    def _consider(self, pid: int) -> None:
        pidfd = open_pidfd(pid)
        # Asked after the pidfd is open, so that both speak of the same process.
        if is_engine_process(pid):
            self._pidfds[pid] = pidfd
        elif pidfd is not None:
            os.close(pidfd)

    def _find_death(self) -> Ending | None:
        for pid, pidfd in self._pidfds.items():
            if pidfd is not None and not select.select([pidfd], [], [], 0)[0]:
                continue
            process = read_process(pid)
            if pidfd is not None or process is None or not process.alive:
                return _ending(process)
        return None

    def close(self) -> None:
        """Forget all of them."""
        for pidfd in self.pidfds():
            os.close(pidfd)
        self._pidfds.clear()


def _ending(process: Process | None) -> Ending:
    """The dead process's status, if its parent has not collected it yet."""
    status = process.exit_code if process is not None and not process.alive else 0
    return Ending(
        "engine-process-died",
        exit_code=os.WEXITSTATUS(status) or None if os.WIFEXITED(status) else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
    )
