"""Starts launchers and ends them after the test."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from launcher_process import Launcher, start_launcher

from warmpod.launcher.processes import descendants, send


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """The directory that launcher and sidecar share."""
    path = tmp_path / "run"
    path.mkdir()
    return path


@pytest.fixture
def launch(run_dir: Path) -> Iterator[Callable[..., Launcher]]:
    """Starts a launcher on an engine, with options of `run`."""
    started: list[Launcher] = []

    def start(engine: list[str], *options: str, **more: Any) -> Launcher:
        launcher = start_launcher(run_dir, engine, *options, **more)
        started.append(launcher)
        return launcher

    yield start
    for launcher in started:
        if launcher.process.poll() is None:
            left = descendants(launcher.process.pid)
            launcher.process.kill()
            for process in left:
                send(process.pid, signal.SIGKILL)
        launcher.process.wait()
