"""One boot: one life of an engine process, with its identity and the lock that shows it lives."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from warmpod.launcher.cache.compilers import Compilers
from warmpod.launcher.events import EventLog
from warmpod.launcher.invocation.command import Command
from warmpod.launcher.log.output import Listener, Output
from warmpod.launcher.policy import Ending
from warmpod.launcher.watch import EngineProcesses
from warmpod.protocol import WARM_FILE

# Python ignores these two, and an ignored signal stays ignored in the program that it starts.
RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)


# Pairs of (a descriptor, the engine's descriptor that it is to be).
Ends = list[tuple[int, int]]
# Starts an engine with these ends; returns its pid, or 0 if it cannot.
Fork = Callable[[Ends], int]


class BootFailedError(Exception):
    """The engine could not be started at all."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BootLock:
    """A locked file: whoever waits for its lock learns of the boot's end at once."""

    def __init__(self, run_dir: Path, boot: str) -> None:
        self.path = run_dir / f"boot-{boot}.lock"
        remove_old_locks(run_dir)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor: int | None = os.open(self.path, flags, 0o644)
        # The sidecar opens it as another user, whatever the umask of this container.
        os.fchmod(self._descriptor, 0o644)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        """Tell that the boot is over; more than once does no harm."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None


def remove_old_locks(run_dir: Path) -> None:
    """Remove the lock files of earlier boots; nobody holds them any more."""
    for path in run_dir.glob("boot-*.lock"):
        path.unlink(missing_ok=True)


class Boot:
    """A running engine. Made by `start`; over once `ending` is not None."""

    def __init__(self, boot: str, lock: BootLock, events: EventLog) -> None:
        self.id = boot
        self.pid = 0
        self.ending: Ending | None = None
        self.asked = ""  # the cause of its end, when the sidecar asked for it
        self.listener = Listener(boot, events)
        self.tell = partial(events.write, boot=boot)
        compilers = Compilers(lambda event, program: self.tell(event, program=program))
        self.processes = EngineProcesses(compilers.look)
        self._output = Output(self.listener.hear)
        self._lock = lock

    def start(self, command: Command, fork: Fork | None = None) -> None:
        """Start the engine in a process group of its own; raises BootFailedError.

        By `fork` if there is one and it can.
        """
        ends = self._output.ends_for_engine()
        try:
            self.pid = (fork(ends) if fork else 0) or spawn(command, ends)
        finally:
            self._output.start()

    def end(self, ending: Ending) -> None:
        """The boot is over: release its lock before anything else is done."""
        self.ending = ending
        self._lock.release()
        self.processes.close()

    def hear_out(self, seconds: float) -> None:
        """Wait until what was written so far is heard, at most `seconds`."""
        self._output.drain(seconds)

    def finish_output(self, seconds: float) -> None:
        """Wait until all output is passed on, at most `seconds`."""
        self._output.join(seconds)


def was_warm(run_dir: Path, boot: str) -> bool:
    """Whether the sidecar found this boot warm. A mark that cannot be read says nothing."""
    try:
        record = json.loads((run_dir / WARM_FILE).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("boot") == boot and record.get("warm") is True


def spawn(command: Command, ends: Ends) -> int:
    """Start a program in a process group of its own; returns its pid, or raises BootFailedError."""
    argv = command.argv
    try:
        return os.posix_spawnp(
            argv[0],
            list(argv),
            command.environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, end, target) for end, target in ends],
            setpgroup=0,
            setsigdef=RESTORED_SIGNALS,
        )
    except FileNotFoundError as missing:
        raise BootFailedError(
            "EngineNotFound",
            f"{argv[0]} is not in the engine image: put it there, or set spec.engine.command",
        ) from missing
    except OSError as failed:
        raise BootFailedError(
            "EngineNotStartable", f"{argv[0]} cannot be started: {failed.strerror}"
        ) from failed
