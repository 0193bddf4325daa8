"""The samples are valid and render."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmpod.api import WarmModel
from warmpod.controller.apiserver.kinds import AUTOSCALER
from warmpod.controller.diagnosis import autoscaling
from warmpod.controller.objects.autoscaler_view import AutoscalerView
from warmpod.controller.objects.views import project
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
        ("sim-standby", "sim-standby", ["Namespace", "WarmModel"], "127.0.0.1:5000/"),
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


@pytest.mark.parametrize("file", ["hpa-cpu", "hpa-requests"])
def test_autoscaler_fits_the_model_that_it_scales(file: str) -> None:
    (found,) = objects(f"{file}.yaml").values()
    model = objects("sim.yaml")["WarmModel"]
    assert found["metadata"]["namespace"] == model["metadata"]["namespace"]
    target = {"apiVersion": model["apiVersion"], "kind": model["kind"], "name": "sim"}
    assert found["spec"]["scaleTargetRef"] == target
    assert model["metadata"]["name"] == "sim"


@pytest.mark.parametrize("file", ["hpa-cpu", "hpa-requests"])
def test_autoscaler_follows_the_advice_for_the_start_that_it_tells(file: str) -> None:
    (found,) = objects(f"{file}.yaml").values()
    (start,) = re.findall(
        r"measured start of a pod, here (\d+) s", (FOLDER / f"{file}.yaml").read_text()
    )
    spec = found["spec"]
    keda = spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", {})
    # Of requests, as KEDA makes it: by processor time alone nothing could be wrong.
    made = {
        **found,
        "spec": {
            "scaleTargetRef": spec["scaleTargetRef"],
            "maxReplicas": 100,
            "metrics": [{"type": "External"}],
            "behavior": spec.get("behavior") or keda["behavior"],
        },
    }
    view = project(AUTOSCALER, made)
    assert isinstance(view, AutoscalerView)
    assert autoscaling.advice(view, int(start), standby=0) is None
    assert autoscaling.advice(view, 2 * int(start), standby=0) is not None


def test_every_sample_is_tested() -> None:
    models = {"tiny", "sim", "sim-standby", "hugging-face", "s3"}
    autoscalers = {"hpa-cpu", "hpa-requests"}
    assert {path.stem for path in FOLDER.glob("*.yaml")} == models | autoscalers
