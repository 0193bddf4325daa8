"""The container's preStop hook: have the gate closed before the engine gets a signal."""

from __future__ import annotations

import time
from pathlib import Path

from warmpod.launcher.console import say
from warmpod.protocol import GATE_CLOSED_FILE, STOPPING_FILE

GATE_SECONDS = 5.0
# A closed gate is out of the endpoints within 52 ms as measured; kube-proxy and the ingresses in
# front of it follow at most once a second.
PROPAGATION_SECONDS = 1.5
POLL_SECONDS = 0.02


def pre_stop(run_dir: Path) -> int:
    """Ask the sidecar to close the gate and wait until users are gone; always 0.

    A hook that fails only makes the kubelet stop the container sooner.
    """
    stopping = run_dir / STOPPING_FILE
    try:
        # It stays empty: a full directory still takes a name.
        stopping.touch(exist_ok=False)
        asked_at = stopping.stat().st_mtime_ns
    except FileExistsError:
        asked_at = 0
    except OSError as failed:
        say(f"{stopping} cannot be written, the gate closes with the pod: {failed.strerror}")
        return 0
    if not _wait_for_gate(run_dir / GATE_CLOSED_FILE, asked_at):
        say(f"no sidecar closed the gate within {GATE_SECONDS:.0f} s; stopping anyway")
    time.sleep(PROPAGATION_SECONDS)
    return 0


def _wait_for_gate(gate_closed: Path, asked_at: int) -> bool:
    """Wait until the file is there and not older than `asked_at` (ns): an old one says nothing."""
    deadline = time.monotonic() + GATE_SECONDS
    while time.monotonic() < deadline:
        try:
            if gate_closed.stat().st_mtime_ns >= asked_at:
                return True
        except FileNotFoundError:
            pass
        time.sleep(POLL_SECONDS)
    return False
