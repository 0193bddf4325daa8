"""The PodDisruptionBudget of the serving pods."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.resources import names


def build(model: WarmModel) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": names.child_metadata(model, names.disruption_budget(model), "engine"),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": names.serving_labels(model.name)},
            # A pod that is not warm must never block a drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
