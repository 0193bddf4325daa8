"""How a boot ended, where the deaths of several processes are seen at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warmpod.launcher.boot import Boot, BootLock
from warmpod.launcher.events import EventLog
from warmpod.launcher.mainloop import MainLoop
from warmpod.launcher.policy import Ending
from warmpod.launcher.wakeups import Wakeups
from warmpod.launcher.watch import WorkerDeath

WORKER = Ending("engine-process-died", signal=15)


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    """One that is up. Its main process sleeps."""
    boot = Boot("b", BootLock(tmp_path, "b"), EventLog(tmp_path / "events.jsonl"))
    boot.pid = os.posix_spawnp("sleep", ["sleep", "3600"], os.environ)
    boot.listener.ready.set()
    yield boot
    if boot.ending is None or boot.ending.cause != "exited":
        os.kill(boot.pid, signal.SIGKILL)
        os.waitpid(boot.pid, 0)


def look(boot: Boot, run_dir: Path, meanwhile: Callable[[], object]) -> Ending | None:
    """How the boot ended, if one of its workers is found dead after all dead children were
    collected, and this happened in between."""

    def check(_main_pid: int) -> WorkerDeath:
        meanwhile()
        return WorkerDeath(WORKER, time.monotonic())

    boot.processes.check = check  # type: ignore[method-assign]
    loop = MainLoop(Wakeups(), run_dir)
    loop.boot = boot
    loop.step(0.0)
    return boot.ending


def test_a_worker_that_died_alone_ends_the_boot(boot: Boot, tmp_path: Path) -> None:
    assert look(boot, tmp_path, lambda: None) == WORKER


def test_a_worker_that_died_with_the_main_process_does_not_hide_its_signal(
    boot: Boot, tmp_path: Path
) -> None:
    def kill() -> None:
        os.kill(boot.pid, signal.SIGKILL)
        os.waitid(os.P_PID, boot.pid, os.WEXITED | os.WNOWAIT)

    assert look(boot, tmp_path, kill) == Ending("exited", signal=9)
