"""The load generator as it runs in its pod, against a simulated engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator import harness
from simulator.harness import Simulator
from support.waiting import wait_for

OPERATOR = Path(__file__).parents[3] / "operator"
BODIES = [
    {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "ignore_eos": True},
    {"prompt": "Hello", "max_tokens": 3, "ignore_eos": True},
]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Simulator]:
    """It runs one request at a time, and wants a key."""
    arguments = ["--max-num-seqs=1", "--api-key=secret"]
    simulator = harness.start_simulator(
        tmp_path / "log", *arguments, port=harness.free_port(), first_seconds=0
    )
    wait_for(lambda: simulator.health() == 200)
    yield simulator
    simulator.stop()


def play(engine: Simulator, prompts: Path, key: str = "secret") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "warmpod.load.main", f"--url={engine.base_url}"),
            *("--model=tiny", f"--prompts={prompts}", "--concurrency=4"),
            *("--seconds=1.5", "--ramp-seconds=0.5"),
        ],
        env=os.environ | {"PYTHONPATH": str(OPERATOR), "WARMPOD_ENGINE_API_KEY": key},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, BODIES)))
    return path


def test_it_says_what_the_engine_did(engine: Simulator, prompts: Path) -> None:
    run = play(engine, prompts)
    assert (run.returncode, run.stderr) == (0, "")
    (line,) = run.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert (found["failed"], found["error"]) == (0, "")
    assert found["requests"] > 4
    # The bodies take turns, so an answer has between three and five tokens.
    tokens = found["tokens_per_second"] / found["requests_per_second"]
    assert 3 <= tokens <= 5
    assert 0 < found["ttft_p50_ms"] <= found["ttft_p99_ms"]
    assert found["tpot_p50_ms"] >= 0


def test_what_fails_is_counted(engine: Simulator, prompts: Path) -> None:
    run = play(engine, prompts, key="wrong")
    found = json.loads(run.stdout)
    assert run.returncode == 0
    assert found["requests"] == 0
    assert found["failed"] > 0
    assert "401" in found["error"]


def test_prompts_that_are_none_are_named(engine: Simulator, tmp_path: Path) -> None:
    prompts = tmp_path / "none.jsonl"
    prompts.write_text("Hello\n")
    run = play(engine, prompts)
    assert (run.returncode, run.stdout) == (2, "")
    assert "line 1 is not JSON" in run.stderr
