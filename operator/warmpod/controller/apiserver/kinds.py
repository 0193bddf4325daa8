"""The kinds of objects the operator reads and writes, and where the API server has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warmpod.protocol import GROUP, KIND, PLURAL, VERSION


@dataclass(frozen=True, slots=True)
class Kind:
    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, sub: str | None = None) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        return root + scope + f"/{self.plural}" + (f"/{name}" if name else "") + _slash(sub)


def _slash(part: str | None) -> str:
    return f"/{part}" if part else ""


WARM_MODEL = Kind(GROUP, VERSION, KIND, PLURAL)
POD = Kind("", "v1", "Pod", "pods")
SERVICE = Kind("", "v1", "Service", "services")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
EVENT = Kind("", "v1", "Event", "events")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces")
NODE = Kind("", "v1", "Node", "nodes")
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
AUTOSCALER = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")

#: Every kind a WarmModel owns, watched by label.
CHILDREN = (
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    DISRUPTION_BUDGET,
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
)
#: What the operator cannot do without.
CACHED = (WARM_MODEL, *CHILDREN, POD)
#: What it watches, too, where it has the right to.
OPTIONAL = (NODE, AUTOSCALER)

_BY_TYPE = {
    (kind.api_version, kind.kind): kind
    for kind in (*CACHED, *OPTIONAL, EVENT, CONFIG_MAP, NAMESPACE, LEASE)
}


def kind_of(obj: dict[str, object]) -> Kind:
    """The kind of an object that one of our builders made. Raises KeyError for any other."""
    return _BY_TYPE[(str(obj["apiVersion"]), str(obj["kind"]))]


def described(obj: dict[str, Any]) -> str:
    """`Service models/llama`."""
    return f"{obj['kind']} {obj['metadata']['namespace']}/{obj['metadata']['name']}"
