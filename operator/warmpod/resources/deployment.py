"""The Deployment: serving and standby pods alike."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.resources import names
from warmpod.resources.revision import Revision

_PROGRESS_DEADLINE_SECONDS = 3600
"""A cold start pulls, loads and compiles; the default of 600 s would call that a failure."""

MIN_READY_SECONDS = 3
"""Until every node sends traffic to a new pod: kube-proxy brings its rules up to date at most once
a second (0.97 s in the median and 1.9 s at worst were measured while Services changed)."""


def build(model: WarmModel, revision: Revision, replicas: int) -> dict[str, Any]:
    """`replicas` counts serving and standby pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": names.child_metadata(model, names.deployment(model), "engine"),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": names.component_selector(model.name, "engine")},
            "strategy": {
                "type": "RollingUpdate",
                # No warm pod goes before the next one is warm.
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "minReadySeconds": MIN_READY_SECONDS,
            "progressDeadlineSeconds": _PROGRESS_DEADLINE_SECONDS,
            "revisionHistoryLimit": 3,
            "template": revision.engine_template,
        },
    }
