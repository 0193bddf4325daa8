"""Where pods may run. Prefetch pods follow the engine, so that no node is missed."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.api.v1alpha1 import WarmModelSpec
from warmpod.resources import names
from warmpod.resources.rendering import without_empty

_PREFERENCE_WEIGHT = 100  # 1 to 100


def engine_placement(model: WarmModel, prefetch_hash: str) -> dict[str, Any]:
    """Scheduling fields of the engine pod: the user's, and a preference for the nodes on which the
    prefetch pods of that identity hold the weights."""
    pod = model.spec.pod
    return without_empty(
        {
            **_common(model.spec),
            "tolerations": _user_tolerations(model.spec),
            "affinity": _with_resident_nodes(pod.affinity or {}, model.name, prefetch_hash),
            "topologySpreadConstraints": list(pod.topology_spread_constraints),
            "runtimeClassName": pod.runtime_class_name,
            "schedulerName": pod.scheduler_name,
        }
    )


def prefetch_placement(model: WarmModel) -> dict[str, Any]:
    """Scheduling fields of the prefetch pod: the part of the engine's that is about nodes."""
    node_affinity = (model.spec.pod.affinity or {}).get("nodeAffinity")
    return without_empty(
        {
            **_common(model.spec),
            "tolerations": [
                *_user_tolerations(model.spec),
                *_device_tolerations(model.spec),
                # It stands for what these pods do.
                {"key": names.NOT_READY_TAINT, "operator": "Exists", "effect": "NoSchedule"},
            ],
            "affinity": {"nodeAffinity": node_affinity} if node_affinity else None,
        }
    )


def _common(spec: WarmModelSpec) -> dict[str, Any]:
    pod = spec.pod
    return {
        "nodeSelector": pod.node_selector,
        "priorityClassName": pod.priority_class_name,
        # The kubelet checks again, with the pod's own secrets, who may use a pulled image.
        "imagePullSecrets": [{"name": secret.name} for secret in pod.image_pull_secrets],
    }


def _user_tolerations(spec: WarmModelSpec) -> list[dict[str, Any]]:
    return [
        item.model_dump(by_alias=True, exclude_none=True, mode="json")
        for item in spec.pod.tolerations
    ]


def _device_tolerations(spec: WarmModelSpec) -> list[dict[str, Any]]:
    """Nodes with devices are often tainted with the resource's name. The admission plugin
    ExtendedResourceToleration opens them to pods that ask for the device, which an agent does
    not."""
    resources = spec.engine.resources
    if resources is None:
        return []
    requested = {**(resources.limits or {}), **(resources.requests or {})}
    return [
        {"key": name, "operator": "Exists", "effect": "NoSchedule"}
        for name in sorted(requested)
        if is_extended(name)
    ]


def is_extended(resource: str) -> bool:
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def _with_resident_nodes(affinity: dict[str, Any], name: str, prefetch_hash: str) -> dict[str, Any]:
    """Preferred, not required: a new node must be able to join before it has prefetched."""
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    pod_affinity = affinity.get("podAffinity") or {}
    terms = pod_affinity.get(key, []) if isinstance(pod_affinity, dict) else None
    if not isinstance(terms, list):
        return affinity  # malformed: goes on as it is, so that the API server names the field
    resident = {
        **names.component_selector(name, "prefetch"),
        names.PREFETCH_LABEL: prefetch_hash,
        names.RESIDENT_LABEL: "true",
    }
    term = {
        "weight": _PREFERENCE_WEIGHT,
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": resident},
            "topologyKey": "kubernetes.io/hostname",
        },
    }
    return {**affinity, "podAffinity": {**pod_affinity, key: [*terms, term]}}
