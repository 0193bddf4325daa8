"""Starts simulators and ends them after the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.simulator.asking import Start
from simulator import harness
from simulator.harness import Simulator
from support.waiting import wait_for

# The simulator's own package, as the `vllm` script beside it imports it.
sys.path.insert(0, str(harness.SIMULATOR.parent))


def _starter(folder: Path, started: list[Simulator]) -> Start:
    def start(
        *arguments: str, wait: bool = True, port: int | None = None, **options: object
    ) -> Simulator:
        log = folder / f"{len(started)}.log"
        simulator = harness.start_simulator(
            log,
            *arguments,
            port=port or harness.free_port(),
            **options,  # type: ignore[arg-type]
        )
        started.append(simulator)
        if wait:
            wait_for(lambda: simulator.health() == 200)
        return simulator

    return start


@pytest.fixture
def start_simulator(tmp_path: Path) -> Iterator[Start]:
    """Starts a simulator and, unless `wait` is False, waits until it is healthy."""
    started: list[Simulator] = []
    yield _starter(tmp_path, started)
    for simulator in started:
        simulator.stop()


@pytest.fixture(scope="session")
def start_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts simulators that live as long as the tests do."""
    started: list[Simulator] = []
    yield _starter(tmp_path_factory.mktemp("simulators"), started)
    for simulator in started:
        simulator.stop()


@pytest.fixture(scope="session")
def simulator(start_shared: Start) -> Simulator:
    """A healthy simulator without slow first requests, shared by tests that only ask it."""
    return start_shared(first_seconds=0)


@pytest.fixture(scope="session")
def able(start_shared: Start, tmp_path_factory: pytest.TempPathFactory) -> Simulator:
    """One with everything that a generating engine can be told to do, and an adapter `german`."""
    adapter = tmp_path_factory.mktemp("adapter")
    return start_shared(
        "--enable-auto-tool-choice",
        "--tool-call-parser=hermes",
        "--reasoning-parser=qwen3",
        "--scheduling-policy=priority",
        "--enable-prompt-tokens-details",
        "--enable-lora",
        f"--lora-modules=german={adapter}",
        first_seconds=0,
        architecture="Qwen3VLForConditionalGeneration",
    )


@pytest.fixture(scope="session")
def embedder(start_shared: Start) -> Simulator:
    """An embedding model."""
    return start_shared("--runner=pooling", "--max-model-len=32", first_seconds=0)


@pytest.fixture(scope="session")
def classifier(start_shared: Start) -> Simulator:
    """A classifier with three labels."""
    return start_shared("--convert=classify", first_seconds=0, labels=3)


@pytest.fixture(scope="session")
def reranker(start_shared: Start) -> Simulator:
    """A classifier with one label, which scores."""
    return start_shared("--task=score", first_seconds=0)


@pytest.fixture(scope="session")
def transcriber(start_shared: Start) -> Simulator:
    """A speech model."""
    return start_shared(first_seconds=0, architecture="WhisperForConditionalGeneration")
