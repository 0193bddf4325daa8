"""Prefetch pods as the API server returns them, as far as `kubectl warm cache` reads them."""

from __future__ import annotations

from typing import Any

from warmpod.protocol import CACHE_STORE_MOUNT
from warmpod.resources.names import AGENT_CONTAINER, COMPONENT_LABEL, MODEL_LABEL


def prefetch_pod(
    name: str,
    node: str,
    *,
    model: str = "tiny",
    created: str = "2026-01-01T00:00:00Z",
    phase: str = "Running",
    store: bool = True,
    leaving: bool = False,
    component: str = "prefetch",
) -> dict[str, Any]:
    mounts = [{"name": "store", "mountPath": CACHE_STORE_MOUNT}] if store else []
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "demo",
        "creationTimestamp": created,
        "labels": {COMPONENT_LABEL: component, MODEL_LABEL: model},
    }
    if leaving:
        metadata["deletionTimestamp"] = created
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "containers": [{"name": AGENT_CONTAINER, "volumeMounts": mounts}],
        },
        "status": {"phase": phase},
    }
