"""Where the files of a source lie, as volumes and mounts: an image, a claim, a path of the node, or
what an agent has downloaded."""

from __future__ import annotations

from typing import Any

from warmpod.api.v1alpha1 import WarmModelSpec
from warmpod.protocol import STAGE_ROOT, STAGE_ROOT_MOUNT
from warmpod.resources.rendering import Rendering, image_volume, mount
from warmpod.resources.weight_sets import WeightSet

_STAGED = "warmpod-staged"


def set_volume(rendering: Rendering, item: WeightSet, name: str) -> dict[str, Any]:
    """The files of one set, for `set_mount`."""
    claim, node = item.source.persistent_volume_claim, item.source.node_path
    if item.image is not None:
        return image_volume(name, item.image)
    if claim is not None:
        # Read-only as a whole: the kubelet makes a missing path only where it may write. Some
        # volumes (hostPath) it may write all the same: then the agent finds an empty directory.
        return _claim(name, claim.claim_name, read_only=True)
    if node is not None:
        return {"name": name, "hostPath": {"path": node.path, "type": "Directory"}}
    staging = rendering.model.spec.staging_claim
    return _claim(name, staging) if staging else host_path(name, f"{STAGE_ROOT}/{item.key}")


def set_mount(rendering: Rendering, item: WeightSet, name: str, path: str) -> dict[str, Any]:
    """Read-only: only the agent writes, and elsewhere."""
    sub_path = None
    if item.source.persistent_volume_claim is not None:
        sub_path = (item.source.persistent_volume_claim.path or "").rstrip("/")
    elif item.source.remote is not None and rendering.model.spec.staging_claim:
        sub_path = item.key
    return mount(name, path, sub_path=sub_path, read_only=True)


def stage_volumes(spec: WarmModelSpec) -> list[dict[str, Any]]:
    """All downloads of a node, or of the cluster, for the agent."""
    if not spec.has_downloads:
        return []
    staging = spec.staging_claim
    return [_claim(_STAGED, staging) if staging else host_path(_STAGED, STAGE_ROOT)]


def stage_mounts(spec: WarmModelSpec) -> list[dict[str, Any]]:
    return [mount(_STAGED, STAGE_ROOT_MOUNT)] if spec.has_downloads else []


def host_path(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def _claim(name: str, claim: str, *, read_only: bool = False) -> dict[str, Any]:
    source = {"claimName": claim} | ({"readOnly": True} if read_only else {})
    return {"name": name, "persistentVolumeClaim": source}
