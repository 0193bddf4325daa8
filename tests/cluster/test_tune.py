"""`kubectl warm tune`: each pair of values by a WarmModel of its own; nothing stays behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from support.api import Api, JsonObject
from support.models import ModelView, warm_model, with_engine
from support.waiting import wait_until
from warmpod.cli.main import app

PROMPT = {"messages": [{"role": "user", "content": "Tell me about pods"}], "max_tokens": 8}
LOAD = ["--concurrency", "2", "--seconds", "3", "--ramp-seconds", "1"]


def test_both_points_are_measured_beside_the_model_that_serves(
    api: Api,
    kubeconfig: Path,
    create: Callable[[JsonObject], ModelView],
    namespace: str,
    tmp_path: Path,
) -> None:
    view = create(with_engine(warm_model("m", namespace), sim={"first_seconds": 0.05}))
    view.wait_ready()
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps(PROMPT) + "\n")
    grid = ["--batched-tokens", "1024", "--seqs", "2,4", "--prompts", str(prompts)]
    runner = CliRunner(env={"KUBECONFIG": str(kubeconfig), "COLUMNS": "200"})
    tuned = runner.invoke(app, ["tune", "m", "-n", namespace, *grid, *LOAD])
    assert tuned.exit_code == 0, tuned.output
    rows = [line.split() for line in tuned.stdout.splitlines()]
    rates = {row[1]: float(row[2]) for row in rows if row[:1] == ["1024"]}
    assert set(rates) == {"2", "4"}, tuned.output
    assert all(rate > 0 for rate in rates.values()), tuned.output
    assert "--max-num-batched-tokens=1024" in tuned.stdout
    assert "--max-num-seqs=" in tuned.stdout

    assert api.find("WarmModel", "m-tune", namespace) is None
    wait_until(
        "nothing of it is left",
        lambda: not _left(api, namespace),
        timeout_s=60,
        describe=lambda: _left(api, namespace),
    )
    assert len(view.engine_pods()) == 1


def _left(api: Api, namespace: str) -> list[str]:
    found = [body for kind in ("Pod", "ConfigMap") for body in api.list(kind, namespace)]
    names = [body["metadata"]["name"] for body in found]
    return [name for name in names if name.startswith("m-tune")]
