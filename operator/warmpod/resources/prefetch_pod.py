"""The template of prefetch pods: one agent a node that holds all images and the weights.

Nothing of it tells revisions apart that differ in their engines only: they share their agents.
"""

from __future__ import annotations

from typing import Any

from warmpod.api.pod import NamedVolume
from warmpod.protocol import AGENT_PORT, AGENT_STATE_MOUNT
from warmpod.resources import (
    agent_config,
    agent_secrets,
    compile_cache,
    names,
    pod_identity,
    weights_volume,
)
from warmpod.resources.placement import prefetch_placement
from warmpod.resources.rendering import Rendering, image_volume, mount
from warmpod.resources.security import agent_context, agent_pod_context

_STATE_VOLUME = "warmpod-agent"
_ENGINE_VOLUME = "warmpod-engine"


def template(rendering: Rendering) -> dict[str, Any]:
    """Rendered once a revision, like the engine's. Its DaemonSet adds the label of identity."""
    model = rendering.model
    return {
        "metadata": {"labels": names.child_labels(model.name, "prefetch")},
        "spec": {
            "serviceAccountName": names.service_account(model),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "schedulingGates": [{"name": names.PREFETCH_GATE}],
            "securityContext": agent_pod_context(model.spec),
            **prefetch_placement(model),
            "containers": [_agent(rendering)],
            "volumes": [
                *weights_volume.agent_volumes(rendering),
                *agent_secrets.volumes(rendering),
                image_volume(_ENGINE_VOLUME, rendering.engine_image),
                *compile_cache.agent_volumes(rendering),
                *(_dump(volume) for volume in _user_images(rendering)),
                {"name": _STATE_VOLUME, "emptyDir": {}},
                pod_identity.token_volume(),
            ],
        },
    }


def _agent(rendering: Rendering) -> dict[str, Any]:
    return {
        "name": names.AGENT_CONTAINER,
        "image": rendering.settings.operator_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["warmpod-agent"],
        "env": [*pod_identity.environment(), agent_config.variable(rendering)],
        "ports": [{"name": names.AGENT_PORT_NAME, "containerPort": AGENT_PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": names.AGENT_PORT_NAME},
            "periodSeconds": 2,
            "failureThreshold": 1,
        },
        "resources": weights_volume.agent_resources(rendering),
        # The kubelet pulls, and protects from collection, only image volumes that are mounted.
        "volumeMounts": [
            *weights_volume.agent_mounts(rendering),
            *agent_secrets.mounts(rendering),
            mount(_ENGINE_VOLUME, "/images/engine", read_only=True),
            *compile_cache.agent_mounts(rendering),
            *(
                mount(volume.name, f"/images/volumes/{volume.name}", read_only=True)
                for volume in _user_images(rendering)
            ),
            mount(_STATE_VOLUME, AGENT_STATE_MOUNT),
            pod_identity.token_mount(),
        ],
        "securityContext": agent_context(rendering.pod_security),
    }


def _user_images(rendering: Rendering) -> list[NamedVolume]:
    """Image volumes of the engine, such as adapters: they are prefetched, too."""
    return [
        volume
        for volume in rendering.model.spec.pod.volumes
        if isinstance(_dump(volume).get("image"), dict)
    ]


def _dump(volume: NamedVolume) -> dict[str, Any]:
    return volume.model_dump(by_alias=True, mode="json")
