"""How the weights come into a pod, by medium."""

from __future__ import annotations

from typing import Any

from warmpod.protocol import FILL_MOUNT, NODE_ROOT, NODE_ROOT_MOUNT, RECEIPT_NAME
from warmpod.quantity import from_bytes, to_bytes
from warmpod.resources import lookups, source_volumes
from warmpod.resources.rendering import Rendering, mount
from warmpod.resources.source_volumes import host_path, set_mount, set_volume
from warmpod.resources.weight_sets import WeightSet

_WEIGHTS = "warmpod-weights"
_SOURCE = "warmpod-model"
_LOOKUP = "warmpod-lookup"
_NODE = "warmpod-node"
_MEBIBYTE = 1024**2
_FILES_OVERHEAD = 32 * _MEBIBYTE
_FILL_OVERHEAD = 128 * _MEBIBYTE
_AGENT_OVERHEAD = 192 * _MEBIBYTE


def engine_volumes(rendering: Rendering) -> list[dict[str, Any]]:
    match rendering.model.spec.weights.medium:
        case "Image":
            return [set_volume(rendering, item, _weights(item)) for item in rendering.sets]
        case "NodeMemory":
            return [host_path(_weights(item), f"{NODE_ROOT}/{item.key}") for item in rendering.sets]
        case "PodMemory":
            memory = {"medium": "Memory", "sizeLimit": pod_memory(rendering)}
            return [
                {"name": _WEIGHTS, "emptyDir": memory},
                *(set_volume(rendering, item, _source(item)) for item in rendering.sets),
            ]


def engine_mounts(rendering: Rendering) -> list[dict[str, Any]]:
    match rendering.model.spec.weights.medium:
        case "Image":
            return [
                set_mount(rendering, item, _weights(item), item.engine_path)
                for item in rendering.sets
            ]
        case "NodeMemory":
            return [
                mount(_weights(item), item.engine_path, read_only=True) for item in rendering.sets
            ]
        case "PodMemory":
            return [
                mount(_WEIGHTS, item.engine_path, sub_path=item.name, read_only=True)
                for item in rendering.sets
            ]


def fill_mounts(rendering: Rendering) -> list[dict[str, Any]]:
    """Of the init container that fills the pod's memory."""
    return [
        mount(_WEIGHTS, FILL_MOUNT),
        *(set_mount(rendering, item, _source(item), item.path) for item in rendering.sets),
    ]


def agent_volumes(rendering: Rendering) -> list[dict[str, Any]]:
    spec = rendering.model.spec
    return [
        *(set_volume(rendering, item, _source(item)) for item in _in_place(rendering)),
        *(volume for item in rendering.sets for volume in lookups.volumes(item, _lookup(item))),
        *source_volumes.stage_volumes(spec),
        *([host_path(_NODE, NODE_ROOT)] if spec.weights.medium == "NodeMemory" else []),
    ]


def agent_mounts(rendering: Rendering) -> list[dict[str, Any]]:
    spec = rendering.model.spec
    return [
        *(set_mount(rendering, item, _source(item), item.path) for item in _in_place(rendering)),
        *(
            again
            for item in rendering.sets
            for again in lookups.mounts(item, _lookup(item), _source(item))
        ),
        *source_volumes.stage_mounts(spec),
        *([mount(_NODE, NODE_ROOT_MOUNT)] if spec.weights.medium == "NodeMemory" else []),
    ]


def volume_names(suffix: str) -> frozenset[str]:
    """Of the volumes with the files of the set that has this suffix, in whichever pod."""
    return frozenset(f"{name}{suffix}" for name in (_WEIGHTS, _SOURCE, _LOOKUP))


def receipt_paths(rendering: Rendering) -> list[str]:
    """What the engine must wait for: copies that can be incomplete when it starts. Those in the
    pod's own memory are filled before it."""
    medium = rendering.model.spec.weights.medium
    return [
        f"{item.engine_path}/{RECEIPT_NAME}"
        for item in rendering.sets
        if medium == "NodeMemory" or (medium == "Image" and item.source.remote is not None)
    ]


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


def _in_place(rendering: Rendering) -> list[WeightSet]:
    return [item for item in rendering.sets if item.source.remote is None]


def _weights(item: WeightSet) -> str:
    return f"{_WEIGHTS}{item.suffix}"


def _source(item: WeightSet) -> str:
    return f"{_SOURCE}{item.suffix}"


def _lookup(item: WeightSet) -> str:
    return f"{_LOOKUP}{item.suffix}"


def _size(rendering: Rendering) -> int:
    return to_bytes(rendering.model.spec.weights.size or 0)
