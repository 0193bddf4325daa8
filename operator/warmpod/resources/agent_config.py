"""The settings of the agent, one JSON document, for both of its commands.

Nothing of it tells revisions apart whose weights and images are the same: they share their agents.
"""

from __future__ import annotations

import json
from typing import Any

from warmpod.protocol import (
    AGENT_CONFIG_VARIABLE,
    AGENT_PORT,
    AGENT_STATE_MOUNT,
    CACHE_STORE_MOUNT,
    CACHE_STORES_MOUNT,
    FILL_MOUNT,
    NODE_ROOT_MOUNT,
    STAGE_ROOT,
    STAGE_ROOT_MOUNT,
)
from warmpod.resources import agent_secrets, lookups
from warmpod.resources.rendering import Rendering
from warmpod.resources.weight_sets import WeightSet

_LOOK_SECONDS = 10


def variable(rendering: Rendering) -> dict[str, Any]:
    weights = rendering.model.spec.weights
    config = {
        "model": rendering.model.name,
        "model_uid": rendering.model.uid,
        "medium": weights.medium,
        "node_root": NODE_ROOT_MOUNT,
        "stage_root": STAGE_ROOT_MOUNT,
        "state_dir": AGENT_STATE_MOUNT,
        "port": AGENT_PORT,
        "look_seconds": _LOOK_SECONDS,
        "scrub_seconds": weights.scrub_seconds,
        "sets": [_set(rendering, item) for item in rendering.sets],
        **_compile_cache(rendering),
    }
    # JSON without `$`, which the kubelet would expand.
    text = json.dumps(config, sort_keys=True).replace("$", "\\u0024")
    return {"name": AGENT_CONFIG_VARIABLE, "value": text}


def _compile_cache(rendering: Rendering) -> dict[str, Any]:
    cache = rendering.model.spec.compile_cache
    if cache.store != "Node":
        return {}
    return {
        "compile_cache": {
            "root": CACHE_STORE_MOUNT,
            "bytes": cache.most_bytes,
            "stores": CACHE_STORES_MOUNT,
        }
    }


def _set(rendering: Rendering, item: WeightSet) -> dict[str, Any]:
    lookup = lookups.of(item)
    return {
        "name": item.name,
        "source": item.path,
        "key": item.key,
        "target": f"{FILL_MOUNT}/{item.name}",
        "remote": _remote(item),
        "credentials": item.credentials,
        "verify": _verify(rendering, item),
        "origin": _origin(rendering, item),
    } | ({"lookup": lookup.document()} if lookup is not None else {})


def _remote(item: WeightSet) -> dict[str, Any] | None:
    """What to download, as the spec has it, but for the Secret."""
    source = item.source
    for kind, remote in (
        ("huggingFace", source.hugging_face),
        ("s3", source.s3),
        ("http", source.http),
    ):
        if remote is not None:
            return {kind: remote.model_dump(by_alias=True, exclude={"secret_name"}, mode="json")}
    return None


def _origin(rendering: Rendering, item: WeightSet) -> dict[str, str]:
    """Where the files come from, in the words of the spec: the agent sees only its own mounts."""
    claim, node = item.source.persistent_volume_claim, item.source.node_path
    if item.image is not None:
        return {"kind": "image", "name": item.image}
    if claim is not None:
        return {
            "kind": "persistentVolumeClaim",
            "name": claim.claim_name,
            "folder": claim.path or "",
        }
    if node is not None:
        return {"kind": "nodePath", "folder": node.path}
    staging = rendering.model.spec.staging_claim
    if staging:
        return {"kind": "download", "name": staging, "folder": item.key}
    return {"kind": "download", "folder": f"{STAGE_ROOT}/{item.key}"}


def _verify(rendering: Rendering, item: WeightSet) -> dict[str, Any] | None:
    if item.source.verify is None:
        return None
    return {
        "image": item.image,
        "publicKey": item.source.verify.public_key,
        "dockerconfig": agent_secrets.pull_folders(rendering) or None,
    }
