"""`kubectl warm tune` as a person types it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unit.cli.tune.scene import FAST, SLOW, WARM, FakeCluster, log_of, model
from warmpod.cli.main import app
from warmpod.cli.tune import command

runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster([WARM, WARM], [log_of(SLOW), log_of(FAST)], models={"llama": model()})
    monkeypatch.setattr(command, "Cluster", lambda kubeconfig, context: fake)
    monkeypatch.setattr("warmpod.cli.waiting.LOOK_SECONDS", 0.001)
    return fake


def tuned(tmp_path: Path, *options: str) -> Any:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "a"}\n')
    grid_options = ["--batched-tokens", "2048,8192", "--seqs", "64"]
    return runner.invoke(app, ["tune", "llama", "--prompts", str(prompts), *grid_options, *options])


def test_the_table_and_the_best(cluster: FakeCluster, tmp_path: Path) -> None:
    result = tuned(tmp_path, "--ttft-ms", "150")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert rows[1][:3] == ["2048", "64", "500"]
    assert rows[1][-1] == "best"
    assert rows[2][:3] == ["8192", "64", "900"]
    assert rows[-1][-2:] == ["--max-num-batched-tokens=2048", "--max-num-seqs=64"]
    assert "1 of 2: 2048 tokens, 64 sequences" in result.stderr
    assert set(cluster.models) == {"llama"}


def test_no_best_is_a_failure(cluster: FakeCluster, tmp_path: Path) -> None:
    result = tuned(tmp_path, "--ttft-ms", "1")
    assert result.exit_code == 1
    assert "No point answers" in result.stdout


def test_what_was_measured_is_shown_when_the_rest_fails(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.loads[1] = ("Succeeded", "nonsense")
    result = tuned(tmp_path)
    assert result.exit_code == 1
    assert "2048" in result.stdout
    assert "is warmpod of the same version?" in result.stderr
    assert set(cluster.models) == {"llama"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--seqs", "many"], "'many' is no list of numbers"),
        (["--seqs", "9000"], "no number of --batched-tokens is as large as one of --seqs"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    cluster: FakeCluster, tmp_path: Path, options: list[str], why: str
) -> None:
    result = tuned(tmp_path, *options)
    assert result.exit_code == 1
    assert why in result.stderr
