"""What a pod may do with its token: report its own conditions, and see whether its WarmModel is
still there. RBAC cannot say "own pod"; a ValidatingAdmissionPolicy does."""

from __future__ import annotations

from typing import Any

from warmpod.api import WarmModel
from warmpod.protocol import GROUP, PLURAL
from warmpod.resources import names

_API_GROUP = "rbac.authorization.k8s.io"


def service_account(model: WarmModel) -> dict[str, Any] | None:
    """None when the spec names an account that exists already."""
    if model.spec.pod.service_account_name is not None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": names.child_metadata(model, names.service_account(model), "engine"),
        "automountServiceAccountToken": False,
    }


def role(model: WarmModel) -> dict[str, Any]:
    return {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": "Role",
        "metadata": names.child_metadata(model, names.role(model), "engine"),
        "rules": [
            {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
            {
                "apiGroups": [GROUP],
                "resources": [PLURAL],
                "resourceNames": [model.name],
                "verbs": ["get"],
            },
            # The sidecar asks whether another pod serves the model before it closes on a time-out.
            {
                "apiGroups": ["discovery.k8s.io"],
                "resources": ["endpointslices"],
                "verbs": ["list"],
            },
            # The agent asks whether it ends for good or for a successor.
            {
                "apiGroups": [""],
                "resources": ["namespaces"],
                "resourceNames": [model.namespace],
                "verbs": ["get"],
            },
        ],
    }


def role_binding(model: WarmModel) -> dict[str, Any]:
    return {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": names.child_metadata(model, names.role(model), "engine"),
        "roleRef": {"apiGroup": _API_GROUP, "kind": "Role", "name": names.role(model)},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": names.service_account(model),
                "namespace": model.namespace,
            }
        ],
    }
