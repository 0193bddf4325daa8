"""The launcher's life: boots one after another until told to stop, or until it gives up."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmpod.launcher import processes
from warmpod.launcher.boot import Boot, BootFailedError, BootLock, was_warm
from warmpod.launcher.console import say
from warmpod.launcher.drain import EngineClient, IdleWatch
from warmpod.launcher.events import EventLog
from warmpod.launcher.policy import Ending, GiveUp, after_boot, worker_death_ends_boot
from warmpod.launcher.wakeups import FORWARDED_SIGNALS, STOP_SIGNALS, Wakeups
from warmpod.protocol import EVENTS_FILE, STOPPING_FILE

# All times are seconds.
STEP = 1.0
WEIGHTS_PERIOD = 0.2
# What was written before the death is in the pipe already.
SETTLE = 0.2
LEFTOVERS_TERM = 5.0
LEFTOVERS_KILL = 10.0
LEFTOVERS_PERIOD = 0.05
# vLLM ignores a first SIGTERM in some of its states; a second one works.
FIRST_TERM = 5.0
SECOND_TERM = 10.0


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    run_dir: Path
    argv: Sequence[str]
    port: int
    scheme: str
    wait_for: Path | None
    drain_seconds: float
    max_failed_boots: int


class Supervisor:
    """Runs in the main thread and is the only one to start, signal and collect processes."""

    def __init__(self, options: Options, wakeups: Wakeups) -> None:
        self._options = options
        self._wakeups = wakeups
        self._events = EventLog(options.run_dir / EVENTS_FILE)
        self._client = EngineClient(options.scheme, options.port)
        self._boot: Boot | None = None
        self._stop_requests = 0

    def run(self) -> int:
        """Supervise; returns the container's exit code."""
        (self._options.run_dir / STOPPING_FILE).unlink(missing_ok=True)
        self._events.write("launcher-started", pid=os.getpid())
        number = failed_boots = 0
        while self._wait_for_weights():
            number += 1
            boot, ending = self._run_boot(number)
            if self._stop_requests:
                return 0
            warm = was_warm(self._options.run_dir, boot)
            step = after_boot(ending, warm, failed_boots, self._options.max_failed_boots)
            failed_boots = step.failed_boots
            if isinstance(step, GiveUp):
                self._events.write(
                    "gave-up", boot, failed_boots=failed_boots, exit_code=step.exit_code
                )
                say(f"gave up after {failed_boots} boots in a row that never became warm")
                return step.exit_code
            if not self._sleep_unless_stopped(step.delay_seconds):
                return 0
        return 0

    def _wait_for_weights(self) -> bool:
        """Wait for the file that says that the weights are complete; False when told to stop.

        Before every boot: the agent takes the file away while it puts a copy right.
        """
        path = self._options.wait_for
        if path is None:
            return True
        if not path.exists():
            say(f"waiting for the weights: {path}")
        while not path.exists():
            if not self._sleep_unless_stopped(WEIGHTS_PERIOD):
                return False
        self._events.write("weights-ready")
        return True

    def _run_boot(self, number: int) -> tuple[str, Ending]:
        """One boot from its lock to the end of its last process."""
        boot_id = secrets.token_hex(6)
        self._events.shrink()
        try:
            lock = BootLock(self._options.run_dir, boot_id)
        except OSError as failed:
            # Without the lock nobody would notice the engine's death, so it must not start.
            say(f"a boot lock cannot be made in {self._options.run_dir}: {failed.strerror}")
            return boot_id, Ending("exited")
        boot = Boot(boot_id, number, lock, self._events)
        self._events.write(
            "boot-started",
            boot_id,
            number=number,
            lock=lock.path.name,
            argv=list(self._options.argv),
        )
        ending = self._live(boot)
        self._boot = None
        return boot_id, ending

    def _live(self, boot: Boot) -> Ending:
        try:
            boot.start(self._options.argv)
        except BootFailedError as failed:
            boot.end(Ending("exited"))
            say(str(failed))
            self._events.write("failure", boot.id, reason=failed.reason, line=str(failed))
            return self._tell_end(boot, [str(failed)])
        self._boot = boot
        self._wait(None, lambda: boot.ending is not None or self._stop_requests > 0)
        if boot.ending is None:
            self._stop(boot)
        boot.settle(SETTLE)
        ending = self._tell_end(boot, boot.listener.last_lines())
        self._clear_leftovers()
        boot.settle(SETTLE)
        return ending

    def _tell_end(self, boot: Boot, last_lines: list[str]) -> Ending:
        boot.listener.silence()
        assert boot.ending is not None  # noqa: S101 - callers end the boot first
        ending = boot.ending
        self._events.write(
            "boot-ended",
            boot.id,
            exit_code=ending.exit_code,
            signal=ending.signal,
            cause=ending.cause,
            last_lines=last_lines,
        )
        say(f"boot {boot.id} ended: {ending}")
        return ending

    def _stop(self, boot: Boot) -> None:
        """End a living boot because the launcher was told to stop."""
        if self._serves(boot):
            self._drain(boot)
            self._terminate(boot)
        else:
            # Nobody is served yet, and vLLM would ignore a polite signal while it starts.
            processes.send_group(boot.pid, signal.SIGKILL)
        self._wait(SECOND_TERM, lambda: boot.ending is not None)
        if boot.ending is None:
            # The kernel cannot kill it, for example while a driver call hangs.
            boot.end(Ending("stopping"))

    def _serves(self, boot: Boot) -> bool:
        known = boot.listener.ready.is_set() or was_warm(self._options.run_dir, boot.id)
        return known or self._client.answers()

    def _drain(self, boot: Boot) -> None:
        self._events.write("draining", boot.id)
        idle = IdleWatch(self._client, self._wakeups.wake)
        idle.start()
        self._wait(
            self._options.drain_seconds,
            lambda: (
                idle.result is not None
                or boot.ending is not None
                or boot.processes.dead is not None
                or self._stop_requests > 1
            ),
        )
        idle.cancel()

    def _terminate(self, boot: Boot) -> None:
        for seconds in (FIRST_TERM, SECOND_TERM):
            if boot.ending is None:
                processes.send(boot.pid, signal.SIGTERM)
                self._wait(seconds, lambda: boot.ending is not None)
        if boot.ending is None:
            processes.send_group(boot.pid, signal.SIGKILL)

    def _clear_leftovers(self) -> None:
        """End every process that is left: the next boot needs their memory and their port."""
        politely = 0.0 if self._stop_requests else LEFTOVERS_TERM
        if self._end_all(signal.SIGTERM, politely) or self._end_all(signal.SIGKILL, LEFTOVERS_KILL):
            return
        left = ", ".join(str(process.pid) for process in living_descendants())
        say(f"processes of the last boot cannot be killed: {left}")

    def _end_all(self, number: signal.Signals, seconds: float) -> bool:
        """Signal every descendant once, also those that are forked meanwhile."""
        deadline = time.monotonic() + seconds
        signalled: set[int] = set()
        while left := {process.pid for process in living_descendants()}:
            for pid in left - signalled:
                processes.send(pid, number)
            signalled |= left
            if time.monotonic() >= deadline:
                return False
            self._step(LEFTOVERS_PERIOD)
        return True

    def _sleep_unless_stopped(self, seconds: float) -> bool:
        """Sleep; False as soon as the launcher was told to stop."""
        self._wait(seconds, lambda: self._stop_requests > 0)
        return self._stop_requests == 0

    def _wait(self, seconds: float | None, until: Callable[[], bool]) -> None:
        """Let time pass until the condition holds, at most `seconds` if given."""
        deadline = None if seconds is None else time.monotonic() + seconds
        self._step(0.0)
        while not until():
            left = STEP if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return
            self._step(min(left, STEP))

    def _step(self, seconds: float) -> None:
        """Sleep until something happens, at most `seconds`, and take note of it."""
        boot = self._boot
        descriptors = boot.processes.pidfds() if boot is not None else []
        received = self._wakeups.wait(seconds, descriptors)
        ended = processes.reap()
        if boot is not None and boot.ending is None:
            self._judge(boot, ended)
        for number in received:
            if number in STOP_SIGNALS:
                self._stop_requests += 1
            elif number in FORWARDED_SIGNALS and boot is not None and boot.ending is None:
                processes.send(boot.pid, signal.Signals(number))

    def _judge(self, boot: Boot, ended: dict[int, int]) -> None:
        """End the boot if its processes say so."""
        stopping = self._stop_requests > 0
        if boot.pid in ended:
            boot.end(ending_of("stopping" if stopping else "exited", ended[boot.pid]))
            return
        death = boot.processes.check(boot.pid)
        if death is None or stopping:
            return
        up = boot.listener.ready.is_set() or was_warm(self._options.run_dir, boot.id)
        if worker_death_ends_boot(up, time.monotonic() - death.seen_at):
            boot.end(death.ending)


def living_descendants() -> list[processes.Process]:
    """The processes below the launcher that still run."""
    return [process for process in processes.descendants(os.getpid()) if process.alive]


def ending_of(cause: str, status: int) -> Ending:
    """Read a wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return Ending(cause, signal=-code)
    return Ending(cause, exit_code=code)
