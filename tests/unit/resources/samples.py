"""WarmModels and renderings for the tests of the builders."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.resources import revision
from warmpod.resources.revision import Digests, Revision
from warmpod.resources.security import PodSecurity
from warmpod.resources.settings import Settings

ENGINE_DIGEST = "sha256:" + "e" * 64
MODEL_DIGEST = "sha256:" + "0123456789abcdef" * 4
DIGESTS = Digests(ENGINE_DIGEST, MODEL_DIGEST)
SETTINGS = Settings(operator_image="registry.example.com/warmpod/operator:1.0")

Json = dict[str, Any]


#: One of each source, as spec.model or an item of spec.additionalModels has it.
SOURCES: dict[str, Json] = {
    "image": {"image": "registry.example.com:5000/models/llama:1.0"},
    "huggingFace": {"huggingFace": {"repository": "org/llama", "secretName": "hub"}},
    "s3": {"s3": {"uri": "s3://models/llama", "region": "eu-central-1", "secretName": "bucket"}},
    "http": {"http": {"url": "https://files.example.com/llama.tar.gz"}},
    "claim": {"persistentVolumeClaim": {"claimName": "models", "path": "llama/1/"}},
    "nodePath": {"nodePath": {"path": "/data/llama"}},
}
REMOTE = ("huggingFace", "s3", "http")
MEDIA = ("Image", "NodeMemory", "PodMemory")


def warm_model(name: str = "llama", **spec: Any) -> WarmModel:
    """A WarmModel whose spec is minimal but for the given fields; `model` and `engine` are
    merged into the minimal ones. A model without a source is an image."""
    model = spec.pop("model", {})
    if not any(source.keys() <= model.keys() for source in SOURCES.values()):
        model = SOURCES["image"] | model
    engine = {"image": "vllm/vllm-openai:v0.32.0"} | spec.pop("engine", {})
    return WarmModel.parse(
        {
            "metadata": {"name": name, "namespace": "models", "uid": "uid-1", "generation": 1},
            "spec": {"model": model, "engine": engine, **spec},
        }
    )


def rendered(
    model: WarmModel,
    digests: Digests = DIGESTS,
    pod_security: PodSecurity = "privileged",
    settings: Settings = SETTINGS,
) -> Revision:
    return revision.render(model, digests, pod_security, settings, number=1)


def engine_spec(model: WarmModel, **facts: Any) -> Json:
    spec: Json = rendered(model, **facts).engine_template["spec"]
    return spec


def prefetch_spec(model: WarmModel, **facts: Any) -> Json:
    spec: Json = rendered(model, **facts).prefetch_template["spec"]
    return spec


def container(pod_spec: Json, name: str) -> Json:
    """Of the containers and init containers, the one with this name."""
    containers = [*pod_spec.get("initContainers", []), *pod_spec["containers"]]
    (found,) = [item for item in containers if item["name"] == name]
    return dict(found)


def engine_container(model: WarmModel, **facts: Any) -> Json:
    return container(engine_spec(model, **facts), "engine")


def environment(of: Json) -> dict[str, Any]:
    """Value or source by name; a name that comes twice is an error in Kubernetes, and here."""
    variables = of.get("env", [])
    found = {item["name"]: item.get("value", item.get("valueFrom")) for item in variables}
    assert len(found) == len(variables)
    return found


def mounts(of: Json) -> dict[str, Json]:
    """By path, each of which may come once only."""
    found = {item["mountPath"]: item for item in of["volumeMounts"]}
    assert len(found) == len(of["volumeMounts"])
    return found


def volumes(pod_spec: Json) -> dict[str, Json]:
    """By name, each of which may come once only."""
    found = {item["name"]: item for item in pod_spec["volumes"]}
    assert len(found) == len(pod_spec["volumes"])
    return found
