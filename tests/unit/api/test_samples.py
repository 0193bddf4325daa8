"""The samples are valid and render."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from warmpod.api import WarmModel
from warmpod.resources import revision
from warmpod.resources.settings import Settings

FOLDER = Path(__file__).parents[3] / "manifests" / "samples"


def objects(file: str) -> dict[str, dict[str, Any]]:
    return {body["kind"]: body for body in yaml.safe_load_all((FOLDER / file).read_text())}


@pytest.mark.parametrize("name", ["tiny", "sim"])
def test_sample(name: str) -> None:
    found = objects(f"{name}.yaml")
    assert list(found) == ["Namespace", "WarmModel"]
    metadata = found["WarmModel"]["metadata"]
    assert metadata == {"name": name, "namespace": found["Namespace"]["metadata"]["name"]}
    assert metadata["namespace"] == "warmpod-demo"
    stored = {**found["WarmModel"], "metadata": {**metadata, "uid": "u"}}
    model = WarmModel.parse(stored)
    made = revision.render(
        model, revision.Digests(None, None), "privileged", Settings("operator:1"), 1
    )
    assert made.engine_template["spec"]["containers"][0]["image"].startswith("127.0.0.1:5000/")
