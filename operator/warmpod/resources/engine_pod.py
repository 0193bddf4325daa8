"""The template of engine pods."""

from __future__ import annotations

from typing import Any

from warmpod.protocol import WARM_CONDITION
from warmpod.resources import (
    agent_config,
    engine_container,
    names,
    pod_identity,
    warmup_container,
    weights_volume,
)
from warmpod.resources.placement import engine_placement
from warmpod.resources.rendering import Rendering
from warmpod.resources.security import engine_pod_context, helper_context


def template(rendering: Rendering, prefetch_hash: str) -> dict[str, Any]:
    """Rendered once a revision; the Deployment then takes it from the ControllerRevision.

    `prefetch_hash`: identity of the prefetch pods that hold the images and the weights."""
    model = rendering.model
    return {
        "metadata": {
            "labels": {
                **names.child_labels(model.name, "engine"),
                names.ROLE_LABEL: names.SERVING,
                names.REVISION_LABEL: rendering.revision_hash,
                names.PREFETCH_LABEL: prefetch_hash,
            }
        },
        "spec": {
            "serviceAccountName": names.service_account(model),
            "automountServiceAccountToken": False,
            # A Service named `vllm` would set VLLM_PORT to an URL, which vLLM cannot parse.
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": model.spec.pod.termination_grace_period_seconds,
            "readinessGates": [{"conditionType": WARM_CONDITION}],
            "securityContext": engine_pod_context(model.spec, rendering.pod_security),
            **engine_placement(model, prefetch_hash),
            "initContainers": _init_containers(rendering),
            "containers": [engine_container.container(rendering)],
            "volumes": [
                *engine_container.volumes(rendering),
                pod_identity.token_volume(),
                *warmup_container.volumes(model),
            ],
        },
    }


def _init_containers(rendering: Rendering) -> list[dict[str, Any]]:
    """The sidecar first, so that it can report while the weights are still being filled in."""
    containers = [warmup_container.container(rendering)]
    if rendering.model.spec.weights.medium == "PodMemory":
        containers.append(_fill_container(rendering))
    return containers


def _fill_container(rendering: Rendering) -> dict[str, Any]:
    memory = weights_volume.fill_memory(rendering)
    return {
        "name": names.WEIGHTS_CONTAINER,
        "image": rendering.settings.operator_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["warmpod-agent", "fill"],
        "env": [agent_config.variable(rendering)],
        "resources": {
            "requests": {"cpu": "50m", "memory": memory},
            "limits": {"memory": memory},
        },
        "volumeMounts": weights_volume.fill_mounts(rendering),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": helper_context(rendering.model.spec),
    }
