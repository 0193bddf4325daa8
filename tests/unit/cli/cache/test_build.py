"""The WarmModel that a compile cache is built with, and the file that it is made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from warmpod.cli.cache.build import read, temporary
from warmpod.cli.cache.entries import CacheError


def document(**spec: Any) -> dict[str, Any]:
    model = {"image": "registry.example.com/models/tiny:1.0"}
    engine = {"image": "vllm/vllm-openai:v0.26.0", "args": ["--max-model-len=64"]}
    return {
        "apiVersion": "warmpod.io/v1alpha1",
        "kind": "WarmModel",
        "metadata": {"name": "tiny", "labels": {"argocd": "app"}, "annotations": {"a": "b"}},
        "spec": {"model": model, "engine": engine} | spec,
    }


def test_one_pod_with_a_store_and_what_decides_reuse() -> None:
    before = document()
    found = temporary(before, "models")
    assert found["metadata"] == {"name": "tiny-cache-build", "namespace": "models"}
    assert found["spec"] == {
        "replicas": 1,
        "standby": {"replicas": 0},
        "compileCache": {"store": "Node"},
        "model": {"image": "registry.example.com/models/tiny:1.0", "servedName": "tiny"},
        "engine": before["spec"]["engine"],
    }
    assert before == document()


def test_what_a_build_does_not_need_is_left_out() -> None:
    image = "registry.example.com/caches/tiny:1.0"
    found = temporary(
        document(
            replicas=4,
            standby={"replicas": 2, "state": "Sleeping"},
            schedule=[{"name": "day"}],
            forecast={"method": "Prophet"},
            rollout={"verify": {}},
            compileCache={"store": "Image", "image": image},
            model={"image": "registry.example.com/models/tiny:1.0", "servedName": "other"},
            warmup={"maxRounds": 5},
        ),
        "models",
    )["spec"]
    assert found["replicas"] == 1
    # An engine that can sleep is started with other options.
    assert found["standby"] == {"replicas": 0, "state": "Sleeping"}
    assert found["compileCache"] == {"store": "Node"}
    assert found["model"]["servedName"] == "other"
    assert found["warmup"] == {"maxRounds": 5}
    assert not found.keys() & {"schedule", "forecast", "rollout"}


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(yaml.safe_dump_all([{"kind": "Namespace"}, document()]))
    assert read(path) == document()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Pod", "holds 0 WarmModels"),
        (yaml.safe_dump(document(replica=1)), r"model.yaml: spec\.replica: is not known"),
        ("kind: [", "model.yaml: while parsing"),
    ],
)
def test_a_file_that_cannot_be_built(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(text)
    with pytest.raises(CacheError, match=says):
        read(path)
