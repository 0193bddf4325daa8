"""What the steps have found, for people who wait, and for those who come later."""

from __future__ import annotations

import contextlib
import json
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from gpu import machine, runner
from gpu.runner import Step

REPORT, LOGS = "gpu.json", "logs.tar.gz"
_POLL_S = 0.5
_LAST_LINES = 40


def follow(steps: Sequence[Step], seconds: float, until: str = "") -> bool:
    """Tells each step that ends, until nothing can run any more or the step `until` has ended;
    False at the limit."""
    deadline = time.monotonic() + seconds
    told: set[str] = set()
    while True:
        states = runner.states(steps)
        for step in steps:
            if states.get(step.name) in (runner.DONE, runner.FAILED) and step.name not in told:
                told.add(step.name)
                print(_line(step.name), flush=True)
        if until in told or runner.is_over(steps, states):
            return True
        if time.monotonic() > deadline:
            print("; ".join(f"{name}: {state}" for name, state in states.items()))
            return False
        time.sleep(_POLL_S)


def _line(name: str) -> str:
    record = runner.read(name)
    line = f"{name}: {record['state']} after {record.get('seconds', 0)} s"
    if record["state"] == runner.DONE:
        return f"{line} {json.dumps(record['result'])[:300]}"
    log = runner.log_of(name)
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([line, *lines[-_LAST_LINES:]])


def save(steps: Sequence[Step], directory: Path) -> None:
    """The figures as JSON, and the logs of steps, engines and cluster."""
    directory.mkdir(parents=True, exist_ok=True)
    found = {step.name: runner.read(step.name) for step in steps}
    (directory / REPORT).write_text(json.dumps(found, indent=1) + "\n")
    with tarfile.open(directory / LOGS, "w:gz") as tar:
        for place in (machine.STEPS, machine.CLUSTER_LOGS):
            for path in place.rglob("*"):
                # Logs of pods go with their pods, also while they are read.
                with contextlib.suppress(FileNotFoundError):
                    tar.add(path, arcname=path.relative_to(place.parent), recursive=False)
