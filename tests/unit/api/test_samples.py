"""The samples are valid and render."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from warmpod.api import WarmModel
from warmpod.resources import revision
from warmpod.resources.digests import Digests
from warmpod.resources.settings import Settings

FOLDER = Path(__file__).parents[3] / "manifests" / "samples"


def objects(file: str) -> dict[str, dict[str, Any]]:
    return {body["kind"]: body for body in yaml.safe_load_all((FOLDER / file).read_text())}


@pytest.mark.parametrize(
    ("file", "name", "kinds", "engine"),
    [
        ("tiny", "tiny", ["Namespace", "WarmModel"], "127.0.0.1:5000/"),
        ("sim", "sim", ["Namespace", "WarmModel"], "127.0.0.1:5000/"),
        ("hugging-face", "qwen", ["Namespace", "WarmModel"], "docker.io/vllm/"),
        ("s3", "llama", ["Namespace", "PersistentVolumeClaim", "WarmModel"], "docker.io/vllm/"),
    ],
)
def test_sample(file: str, name: str, kinds: list[str], engine: str) -> None:
    found = objects(f"{file}.yaml")
    assert list(found) == kinds
    metadata = found["WarmModel"]["metadata"]
    assert metadata == {"name": name, "namespace": found["Namespace"]["metadata"]["name"]}
    assert metadata["namespace"] == "warmpod-demo"
    stored = {**found["WarmModel"], "metadata": {**metadata, "uid": "u"}}
    model = WarmModel.parse(stored)
    made = revision.render(model, Digests(None, None), "privileged", Settings("operator:1"), 1)
    assert made.engine_template["spec"]["containers"][0]["image"].startswith(engine)


def test_every_sample_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {"tiny", "sim", "hugging-face", "s3"}
