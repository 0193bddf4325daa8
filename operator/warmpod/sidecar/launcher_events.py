"""What the launcher's events mean for the gate. Pure."""

import signal
from pathlib import Path

from warmpod.protocol import REFERENCE_DONE, WARMUP_FAILED
from warmpod.sidecar import lifecycle
from warmpod.sidecar.boots import Boot, LauncherEvent

CAUSES = {
    "exited": "the engine exited",
    "engine-process-died": "a process of the engine died",
    "stopping": "the engine was stopped",
    WARMUP_FAILED: "the engine was ended because its warm-up had failed",
    REFERENCE_DONE: "its answers were recorded",
}


def lifecycle_event(
    event: LauncherEvent, run_dir: Path, warm_before: str | None, now: float
) -> lifecycle.Event | None:
    """None for events that do not bear on the gate. `warm_before` is the boot that an earlier
    sidecar has proven warm, `now` is on the monotonic clock."""
    match event.name:
        case "launcher-started" | "weights-ready":
            return lifecycle.LauncherStarted()
        case "boot-started":
            return lifecycle.BootStarted(Boot.of(event, run_dir), event.boot == warm_before)
        case "failure":
            failure = lifecycle.Failure(event.fields["reason"], event.fields["line"])
            return lifecycle.FailureSeen(event.boot, failure)
        case "boot-ended":
            asked = event.fields.get("cause") == WARMUP_FAILED
            return lifecycle.BootEnded(event.boot, _how_ended(event), asked)
        case "late-compile" | "cache-grew" | "compiler-started" | "compiler-ended":
            return lifecycle.Progressed(event.boot, now)
        case "gave-up":
            return lifecycle.GaveUp()
        case _:
            return None


def _how_ended(event: LauncherEvent) -> str:
    fields = event.fields
    cause = str(fields.get("cause", ""))
    parts = [CAUSES.get(cause, cause)]
    if fields.get("signal") is not None:
        parts.append(f"signal {_signal_name(int(fields['signal']))}")
    elif fields.get("exit_code") is not None:
        parts.append(f"exit code {fields['exit_code']}")
    last_lines = [line for line in fields.get("last_lines") or () if line.strip()]
    if last_lines:
        parts.append(f"last line: {last_lines[-1].strip()}")
    return ", ".join(parts)


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
