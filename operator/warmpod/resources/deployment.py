"""The Deployment: serving and standby pods alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warmpod.api import WarmModel
from warmpod.resources import names
from warmpod.resources.revision import Revision

_PROGRESS_DEADLINE_SECONDS = 3600
"""A cold start pulls, loads and compiles; the default of 600 s would call that a failure."""

MIN_READY_SECONDS = 3
"""Until every node sends traffic to a new pod: kube-proxy brings its rules up to date at most once
a second (0.97 s in the median and 1.9 s at worst were measured while Services changed)."""

HELD_SECONDS = 7 * 24 * 3600
"""The same for a revision that was not judged yet: no old pod goes for it, however long nobody
judges. The old pods' ReplicaSets keep their own."""


@dataclass(frozen=True)
class Strategy:
    """How pods of one template take the place of another's. The first two are not both 0."""

    max_surge: int = 1
    """Pods that may be there beyond what is asked for."""
    max_unavailable: int = 0
    """By default no warm pod goes before the next one is warm."""
    held: bool = False
    """Whether the rollout stops after its first pods."""


def build(
    model: WarmModel, revision: Revision, replicas: int, strategy: Strategy = Strategy()
) -> dict[str, Any]:
    """`replicas` counts serving and standby pods."""
    held = HELD_SECONDS if strategy.held else 0
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": names.child_metadata(model, names.deployment(model), "engine"),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": names.component_selector(model.name, "engine")},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "maxSurge": strategy.max_surge,
                    "maxUnavailable": strategy.max_unavailable,
                },
            },
            "minReadySeconds": held or MIN_READY_SECONDS,
            # The API server wants it longer than the one above.
            "progressDeadlineSeconds": held + _PROGRESS_DEADLINE_SECONDS,
            "revisionHistoryLimit": 3,
            "template": revision.engine_template,
        },
    }
