"""Names, labels and ownership of everything that belongs to a WarmModel."""

from __future__ import annotations

from typing import Any, Literal

from warmpod.api import WarmModel
from warmpod.protocol import API_VERSION, GROUP, KIND

MODEL_LABEL = f"{GROUP}/model"
COMPONENT_LABEL = f"{GROUP}/component"
ROLE_LABEL = f"{GROUP}/role"
REVISION_LABEL = f"{GROUP}/revision"
#: Identity of a template of prefetch pods: on their DaemonSet, on them, and on the engine pods that
#: find their images and weights where those pods hold them.
PREFETCH_LABEL = f"{GROUP}/prefetch"
#: On prefetch pods whose weights are resident; the operator sets it.
RESIDENT_LABEL = f"{GROUP}/resident"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"

ENGINE_CONTAINER = "engine"
WARMUP_CONTAINER = "warmup"
WEIGHTS_CONTAINER = "weights"
AGENT_CONTAINER = "agent"

ENGINE_PORT_NAME = "http"
WARMUP_PORT_NAME = "warmup"
AGENT_PORT_NAME = "agent"

#: The scheduling gate of prefetch pods: the operator takes it away when it is a pod's turn.
PREFETCH_GATE = f"{GROUP}/prefetch"
#: The taint of nodes that are not prefetched yet, where an administrator starts them with it.
NOT_READY_TAINT = f"{GROUP}/not-ready"

SERVING = "serving"
STANDBY = "standby"

#: On engine pods: from which state a standby pod was promoted, `Awake` or `Sleeping`, and when.
PROMOTED_FROM = f"{GROUP}/promoted-from"
PROMOTED_AT = f"{GROUP}/promoted-at"
#: On standby pods that took traffic before: since when they do not.
DEMOTED_AT = f"{GROUP}/demoted-at"
#: On standby pods that did not wake up in time: when they were given up.
WAKE_FAILED_AT = f"{GROUP}/wake-failed-at"

Component = Literal["engine", "prefetch"]


def deployment(model: WarmModel) -> str:
    return model.name


def daemonset(model: WarmModel, prefetch_hash: str) -> str:
    return f"{model.name}-prefetch-{prefetch_hash}"


def service(model: WarmModel) -> str:
    return model.name


def disruption_budget(model: WarmModel) -> str:
    return model.name


def role(model: WarmModel) -> str:
    return f"{model.name}-warmpod"


def service_account(model: WarmModel) -> str:
    """The account of the pods; the admission policy knows such accounts by their suffix."""
    return model.spec.pod.service_account_name or f"{model.name}-warmpod"


def controller_revision(model: WarmModel, revision_hash: str) -> str:
    return f"{model.name}-{revision_hash}"


def load_record(model: WarmModel) -> str:
    """The ConfigMap with the recorded load; the suffix is no model's own, so that it is nobody
    else's ConfigMap by chance."""
    return f"{model.name}-warmpod-load"


def component_selector(name: str, component: Component) -> dict[str, str]:
    return {MODEL_LABEL: name, COMPONENT_LABEL: component}


def serving_labels(name: str) -> dict[str, str]:
    """Selects the engine pods that the Service sees."""
    return {**component_selector(name, "engine"), ROLE_LABEL: SERVING}


def serving_selector(name: str) -> str:
    """The same as text, for status.selector, which autoscalers read."""
    return ",".join(f"{key}={value}" for key, value in serving_labels(name).items())


def child_labels(name: str, component: Component) -> dict[str, str]:
    return {MANAGED_BY_LABEL: "warmpod", **component_selector(name, component)}


def child_metadata(model: WarmModel, name: str, component: Component) -> dict[str, Any]:
    """Metadata of a child. Nothing is copied from the WarmModel's own labels: deployment tools
    mark what they manage there, and would take a child with such a mark for theirs."""
    return {
        "name": name,
        "namespace": model.namespace,
        "labels": child_labels(model.name, component),
        "ownerReferences": [owner_reference(model)],
    }


def owner_reference(model: WarmModel) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": model.name,
        "uid": model.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
