"""The DaemonSet of prefetch pods."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.resources import names
from warmpod.resources.revision import Revision


def build(model: WarmModel, revision: Revision) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": names.child_metadata(model, names.daemonset(model), "prefetch"),
        "spec": {
            "selector": {"matchLabels": names.component_selector(model.name, "prefetch")},
            # One node at a time: a new image is pulled and read by one node while the others
            # go on holding the old one.
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1},
            },
            "revisionHistoryLimit": 3,
            "template": revision.prefetch_template,
        },
    }
