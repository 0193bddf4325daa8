"""What people write by hand today: a Deployment with a probe on /health, and a Service."""

from __future__ import annotations

from support.api import JsonObject
from support.models import WEIGHTS_TINY

NAME = "plain"
_SCRATCH: tuple[JsonObject, ...] = (
    {"name": "shm", "emptyDir": {"medium": "Memory"}},
    {"name": "tmp", "emptyDir": {}},
)

IMAGE: JsonObject = {"image": {"reference": WEIGHTS_TINY, "pullPolicy": "IfNotPresent"}}


def objects(
    namespace: str,
    engine: JsonObject,
    volumes: tuple[JsonObject, ...] = (),
    weights: JsonObject = IMAGE,
) -> list[JsonObject]:
    """`engine` and `volumes` as in a WarmModel's engine and pod.volumes; `weights`: the source of
    the volume with the model's files."""
    labels = {"app": NAME}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "enableServiceLinks": False,
            "containers": [_container(engine)],
            "volumes": [{"name": "weights", **weights}, *_SCRATCH, *volumes],
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"selector": labels, "ports": [{"port": 8000}]},
    }
    return [deployment, service]


def _container(engine: JsonObject) -> JsonObject:
    further = [{"name": "HF_HUB_OFFLINE", "value": "1"}, {"name": "HOME", "value": "/tmp"}]
    mounts = [
        {"name": "weights", "mountPath": f"/models/{NAME}"},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    return {
        **engine,
        "name": "engine",
        # Asks the registry what a tag stands for, as the operator does: both run the same image.
        "imagePullPolicy": "Always",
        "command": ["vllm", "serve", f"/models/{NAME}", f"--served-model-name={NAME}"],
        "env": [*engine["env"], *further],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
        "volumeMounts": [*mounts, *engine.get("volumeMounts", [])],
    }
