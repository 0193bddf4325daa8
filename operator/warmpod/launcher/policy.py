"""What to do after a boot has ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DELAY_SECONDS = 30.0
# While the engine starts, its main process outlives a dead worker by the time that it needs to
# print the cause and exit. It may also wait for ever, so it does not get more than this (seconds).
START_GRACE_SECONDS = 15.0


@dataclass(frozen=True)
class Ending:
    """How a boot ended. `exit_code` and `signal` are those of the engine, where they are known."""

    cause: str  # "exited", "engine-process-died" or "stopping"
    exit_code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        """For the log: `exited with code 0`, `engine-process-died by signal 9`."""
        if self.exit_code is not None:
            return f"{self.cause} with code {self.exit_code}"
        if self.signal is not None:
            return f"{self.cause} by signal {self.signal}"
        return self.cause


@dataclass(frozen=True)
class StartAgain:
    """Start the next boot after `delay_seconds`; `failed_boots` failed in a row so far."""

    failed_boots: int
    delay_seconds: float


@dataclass(frozen=True)
class GiveUp:
    """End the container with `exit_code`, which is never 0."""

    failed_boots: int
    exit_code: int


Step = StartAgain | GiveUp


def after_boot(ending: Ending, was_warm: bool, failed_before: int, max_failed: int) -> Step:
    """Decide on what follows a boot that nobody asked to stop.

    A boot that had become warm has shown that the engine works, so the next one follows at once.
    One that had not counts as failed, whatever its exit code: vLLM exits with 0 when its engine
    process dies.
    """
    if was_warm:
        return StartAgain(failed_boots=0, delay_seconds=0.0)
    failed = failed_before + 1
    if failed >= max_failed:
        return GiveUp(failed, ending.exit_code or 1)
    return StartAgain(failed, min(2.0 ** (failed - 1), MAX_DELAY_SECONDS))


def worker_death_ends_boot(up: bool, seconds_since: float) -> bool:
    """Whether the death of one of vLLM's worker processes ends the boot now.

    At once when the engine is up: each request from then on would fail.
    """
    return up or seconds_since >= START_GRACE_SECONDS
