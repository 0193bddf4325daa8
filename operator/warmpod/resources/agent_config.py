"""The settings of the agent, one JSON document, for both of its commands."""

from __future__ import annotations

import json
from typing import Any

from warmpod.protocol import (
    AGENT_CONFIG_VARIABLE,
    AGENT_PORT,
    FILL_MOUNT,
    NODE_ROOT_MOUNT,
)
from warmpod.resources import weights_volume
from warmpod.resources.rendering import Rendering

_SCRUB_SECONDS = 30


def variable(rendering: Rendering) -> dict[str, Any]:
    config = {
        "model": rendering.model.name,
        "model_uid": rendering.model.uid,
        "revision": rendering.revision_hash,
        "medium": rendering.model.spec.weights.medium,
        "source": weights_volume.IMAGE_MOUNT,
        "node_root": NODE_ROOT_MOUNT,
        "key": rendering.weights_key,
        "target": FILL_MOUNT,
        "port": AGENT_PORT,
        "scrub_seconds": _SCRUB_SECONDS,
    }
    return {"name": AGENT_CONFIG_VARIABLE, "value": json.dumps(config, sort_keys=True)}
