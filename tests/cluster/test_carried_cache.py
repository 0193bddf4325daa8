"""A compile cache that the command line builds and pushes, and that a new WarmModel starts with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from support.api import Api, JsonObject
from support.images import REGISTRY
from support.models import ModelView, knobs, warm_model, with_engine
from support.startups import Startups
from warmpod.cli.cache.build import SUFFIX
from warmpod.cli.main import app
from warmpod.cli.temporary import suffixed

NAME = "cached"
SIM = {"first_seconds": 0.05, "load_seconds": 1, "driver": "550.1"}


def model(namespace: str, **cache: Any) -> JsonObject:
    made = warm_model(NAME, namespace, compileCache=cache)
    return with_engine(made, args=["--max-model-len=1024"], env=knobs(**SIM))


def test_what_is_built_is_hit(
    api: Api,
    kubeconfig: Path,
    create: Callable[[JsonObject], ModelView],
    namespace: str,
    tmp_path: Path,
) -> None:
    reference = f"{REGISTRY}/warmpod/cache-{namespace}:1.0"
    file = tmp_path / "model.yaml"
    file.write_text(json.dumps(model(namespace, store="Image", image=reference)))
    runner = CliRunner(env={"KUBECONFIG": str(kubeconfig)})
    built = runner.invoke(app, ["cache", "build", "-f", str(file), reference])
    assert built.exit_code == 0, built.output
    pinned = built.stdout.strip()
    assert pinned.startswith(f"{reference}@sha256:")
    assert api.find("WarmModel", suffixed(NAME, SUFFIX), namespace) is None

    view = create(model(namespace, store="Image", image=pinned))

    (startup,) = Startups(view).next()
    assert startup["compile"] == "hit", startup
