"""Starts simulators and ends them after the test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simulator import harness
from simulator.harness import Simulator
from support.waiting import wait_for

# The simulator's own package, as the `vllm` script beside it imports it.
sys.path.insert(0, str(harness.SIMULATOR.parent))


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """A healthy simulator without slow first requests, shared by tests that only ask it."""
    log = tmp_path_factory.mktemp("simulator") / "log"
    shared = harness.start_simulator(log, port=harness.free_port(), first_seconds=0)
    wait_for(lambda: shared.health() == 200)
    yield shared
    shared.stop()


@pytest.fixture
def start_simulator(tmp_path: Path) -> Iterator[Callable[..., Simulator]]:
    """Starts a simulator and, unless `wait` is False, waits until it is healthy."""
    started: list[Simulator] = []

    def start(
        *arguments: str, wait: bool = True, port: int | None = None, **knobs: object
    ) -> Simulator:
        log = tmp_path / f"{len(started)}.log"
        simulator = harness.start_simulator(
            log, *arguments, port=port or harness.free_port(), **knobs
        )
        started.append(simulator)
        if wait:
            wait_for(lambda: simulator.health() == 200)
        return simulator

    yield start
    for simulator in started:
        simulator.stop()
