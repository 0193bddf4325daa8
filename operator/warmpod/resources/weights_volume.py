"""How the weights come into a pod, by medium."""

from __future__ import annotations

from typing import Any

from warmpod.api.quantity import from_bytes, to_bytes
from warmpod.protocol import FILL_MOUNT, NODE_ROOT_MOUNT, RECEIPT_NAME
from warmpod.resources.rendering import Rendering, image_volume, mount

IMAGE_MOUNT = "/images/model"
NODE_ROOT = "/dev/shm/warmpod"  # noqa: S108 - on the node: a tmpfs that every Linux has

_WEIGHTS = "warmpod-weights"
_IMAGE = "warmpod-model"
_NODE = "warmpod-node"
_MEBIBYTE = 1024**2
_FILES_OVERHEAD = 32 * _MEBIBYTE
_FILL_OVERHEAD = 128 * _MEBIBYTE
_AGENT_OVERHEAD = 192 * _MEBIBYTE


def engine_volumes(rendering: Rendering) -> list[dict[str, Any]]:
    match rendering.model.spec.weights.medium:
        case "Image":
            return [image_volume(_WEIGHTS, rendering.model_image)]
        case "NodeMemory":
            return [_host_path(_WEIGHTS, f"{NODE_ROOT}/{rendering.weights_key}")]
        case "PodMemory":
            memory = {"medium": "Memory", "sizeLimit": pod_memory(rendering)}
            return [
                {"name": _WEIGHTS, "emptyDir": memory},
                image_volume(_IMAGE, rendering.model_image),
            ]


def engine_mount(rendering: Rendering) -> dict[str, Any]:
    return mount(_WEIGHTS, rendering.model_path, read_only=True)


def fill_mounts() -> list[dict[str, Any]]:
    """Of the init container that fills the pod's memory."""
    return [mount(_WEIGHTS, FILL_MOUNT), image_mount()]


def image_mount() -> dict[str, Any]:
    return mount(_IMAGE, IMAGE_MOUNT, read_only=True)


def agent_volumes(rendering: Rendering) -> list[dict[str, Any]]:
    volumes = [image_volume(_IMAGE, rendering.model_image)]
    if rendering.model.spec.weights.medium == "NodeMemory":
        volumes.append(_host_path(_NODE, NODE_ROOT))
    return volumes


def agent_mounts(rendering: Rendering) -> list[dict[str, Any]]:
    mounts = [image_mount()]
    if rendering.model.spec.weights.medium == "NodeMemory":
        mounts.append(mount(_NODE, NODE_ROOT_MOUNT))
    return mounts


def receipt_path(rendering: Rendering) -> str | None:
    """What the engine must wait for: only a node's copy can be incomplete when it starts."""
    if rendering.model.spec.weights.medium != "NodeMemory":
        return None
    return f"{rendering.model_path}/{RECEIPT_NAME}"


def pod_memory(rendering: Rendering) -> str:
    """Room for the weights, and for the small files beside them and whole pages."""
    return from_bytes(_size(rendering) + _FILES_OVERHEAD)


def fill_memory(rendering: Rendering) -> str:
    """The pages that the init container writes are charged to it."""
    return from_bytes(_size(rendering) + _FILL_OVERHEAD)


def agent_resources(rendering: Rendering) -> dict[str, Any]:
    """The agent pays for the weights that it holds, so that the scheduler knows of them.

    Without a known size there is no limit: a limit below the weights would make the kernel drop
    the pages that the agent is there to hold.
    """
    weights = rendering.model.spec.weights
    if weights.size is None or weights.medium == "PodMemory":
        return {"requests": {"cpu": "50m", "memory": from_bytes(_AGENT_OVERHEAD)}}
    memory = from_bytes(_size(rendering) + _AGENT_OVERHEAD)
    return {"requests": {"cpu": "50m", "memory": memory}, "limits": {"memory": memory}}


def _size(rendering: Rendering) -> int:
    return to_bytes(rendering.model.spec.weights.size or 0)


def _host_path(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
