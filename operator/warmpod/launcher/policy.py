"""What to do after a boot has ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from warmpod.protocol import WARMUP_FAILED

MAX_DELAY_SECONDS = 30.0
# While the engine starts, its main process outlives a dead worker by the time that it needs to
# print the cause and exit. It may also wait for ever, so it does not get more than this (seconds).
START_GRACE_SECONDS = 15.0

# Between looks at the compile caches, in seconds. Before the engine answers, growth only shows that
# it goes on; after that, each round of the warm-up is judged by it.
STARTING_LOOK_SECONDS = 2.0
UP_LOOK_SECONDS = 0.3
# For an engine that writes new files for ever.
RARE_LOOK_SECONDS = 30.0
MANY_GROWTHS = 1000
# A look takes at most a tenth of a core.
PAUSES_PER_LOOK = 9.0

_PHASES = {"load_start": "weights", "graphs_start": "graphs"}
# Lines of other ranks, and of steps within a phase: they do not end it.
_WITHIN_PHASES = frozenset({"dist", "weights"})
_OUT_OF_MEMORY = {
    "weights": "OutOfMemoryInWeights",
    "graphs": "OutOfMemoryInGraphCapture",
}


@dataclass(frozen=True)
class Ending:
    """How a boot ended. `exit_code` and `signal` are those of the engine, where they are known."""

    # "exited", "engine-process-died", "stopping", or as asked: "warmup-failed", "reference-done"
    cause: str
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
    process dies. One that the sidecar had ended does not count: the sidecar bounds their number.
    """
    if was_warm:
        return StartAgain(failed_boots=0, delay_seconds=0.0)
    if ending.cause == WARMUP_FAILED:
        return StartAgain(failed_before, delay_seconds=0.0)
    failed = failed_before + 1
    if failed >= max_failed:
        return GiveUp(failed, ending.exit_code or 1)
    return StartAgain(failed, min(2.0 ** (failed - 1), MAX_DELAY_SECONDS))


def worker_death_ends_boot(up: bool, seconds_since: float) -> bool:
    """Whether the death of one of vLLM's worker processes ends the boot now.

    At once when the engine is up: each request from then on would fail.
    """
    return up or seconds_since >= START_GRACE_SECONDS


def cache_look_pause(up: bool, growths: int, took: float) -> float:
    """Seconds until the next look at the caches, after one of `took` seconds of CPU time."""
    if growths >= MANY_GROWTHS:
        shortest = RARE_LOOK_SECONDS
    else:
        shortest = UP_LOOK_SECONDS if up else STARTING_LOOK_SECONDS
    return max(shortest, took * PAUSES_PER_LOOK)


def phase_after(stage: str, phase: str) -> str:
    """Where the start-up is after a stage, as far as it tells why memory runs out; "" elsewhere."""
    return phase if stage in _WITHIN_PHASES else _PHASES.get(stage, "")


def reason_in_phase(reason: str, phase: str) -> str:
    """The reason that says where memory ran out."""
    return _OUT_OF_MEMORY.get(phase, reason) if reason == "OutOfMemory" else reason
