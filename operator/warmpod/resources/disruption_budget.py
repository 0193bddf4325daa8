"""The PodDisruptionBudget of the serving pods."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.resources import names


def build(model: WarmModel, serving: int) -> dict[str, Any]:
    """Lets all but one of the pods that are to serve be counted on. Standby pods may be evicted.

    Not `maxUnavailable: 1`: that is reckoned from the Deployment's replicas, which count standby
    pods too, while only serving ones are selected; with one standby pod no serving one could ever
    be evicted (k8s.io/kubernetes/pkg/controller/disruption: getExpectedScale).
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": names.child_metadata(model, names.disruption_budget(model), "engine"),
        "spec": {
            "minAvailable": max(0, serving - 1),
            "selector": {"matchLabels": names.serving_labels(model.name)},
            # A pod that is not warm must never block a drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
