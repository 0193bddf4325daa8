"""The DaemonSet of prefetch pods: one for each template, which never changes."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.resources import names
from warmpod.resources.revision import Revision


def build(model: WarmModel, revision: Revision) -> dict[str, Any]:
    """Revisions whose prefetch pods are the same have the same DaemonSet."""
    identity = {names.PREFETCH_LABEL: revision.prefetch_hash}
    metadata = names.child_metadata(
        model, names.daemonset(model, revision.prefetch_hash), "prefetch"
    )
    metadata["labels"] |= identity
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": {
                "matchLabels": {**names.component_selector(model.name, "prefetch"), **identity}
            },
            # Other pods belong to another DaemonSet, so there is nothing to roll out; and what
            # somebody changes in the template for a moment ends no agent.
            "updateStrategy": {"type": "OnDelete"},
            "revisionHistoryLimit": 1,
            "template": _labelled(revision.prefetch_template, identity),
        },
    }


def _labelled(template: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """What the template's identity is computed from cannot hold it."""
    metadata = template.get("metadata") or {}
    own = metadata.get("labels") or {}
    return {**template, "metadata": {**metadata, "labels": {**own, **labels}}}
