"""The Service in front of the serving pods."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.resources import names

PORT = 8000


def build(model: WarmModel) -> dict[str, Any]:
    """The target port is a name, so that pods of two revisions may listen on different ports."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.child_metadata(model, names.service(model), "engine"),
        "spec": {
            "type": "ClusterIP",
            "selector": names.serving_labels(model.name),
            "ports": [
                {
                    "name": "http",
                    "port": PORT,
                    "protocol": "TCP",
                    "targetPort": names.ENGINE_PORT_NAME,
                }
            ],
        },
    }
