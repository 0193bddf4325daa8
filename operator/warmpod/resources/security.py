"""Security contexts, and what the Pod Security level of a namespace allows.

Levels: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from warmpod.api import WarmModel
from warmpod.api.v1alpha1 import WarmModelSpec

PodSecurity = Literal["privileged", "baseline", "restricted"]

NON_ROOT_UID = 65532
ENFORCE_LABEL = "pod-security.kubernetes.io/enforce"


def level_of(namespace_labels: Mapping[str, str]) -> PodSecurity:
    """The enforced level. An unknown value counts as restricted, as the API server takes it."""
    level = namespace_labels.get(ENFORCE_LABEL, "privileged")
    if level == "privileged":
        return "privileged"
    return "baseline" if level == "baseline" else "restricted"


def refusal(model: WarmModel, level: PodSecurity) -> str | None:
    """Why the namespace cannot hold the model, with the remedy; None if it can."""
    if model.spec.weights.medium == "NodeMemory" and level != "privileged":
        return (
            f"spec.weights.medium: NodeMemory needs hostPath, which namespace {model.namespace} "
            f"forbids ({ENFORCE_LABEL}={level}): use PodMemory or Image, or another namespace"
        )
    return None


def engine_pod_context(spec: WarmModelSpec, level: PodSecurity) -> dict[str, Any]:
    """Of the engine pod. A user is set only where the namespace demands one other than root."""
    context = _seccomp()
    user = spec.pod.security_context or {}
    engine = spec.engine.security_context or {}
    if level == "restricted":
        context["runAsNonRoot"] = True
        if "runAsUser" not in engine:
            context["runAsUser"] = NON_ROOT_UID
    return context | user


def engine_context(spec: WarmModelSpec) -> dict[str, Any]:
    user = spec.engine.security_context or {}
    context: dict[str, Any] = {"capabilities": {"drop": ["ALL"]}}
    if not user.get("privileged"):  # the API server refuses the two together
        context["allowPrivilegeEscalation"] = False
    return context | user


def helper_context(spec: WarmModelSpec) -> dict[str, Any]:
    """Of our own containers in the engine pod: always restricted-clean.

    They follow a user id that the spec sets for the pod, because such a namespace may accept
    no other.
    """
    user = (spec.pod.security_context or {}).get("runAsUser")
    return _restricted(user if isinstance(user, int) and user > 0 else NON_ROOT_UID)


def agent_pod_context() -> dict[str, Any]:
    return _seccomp()


def agent_context(level: PodSecurity) -> dict[str, Any]:
    """Of the agent: root with two capabilities where that is allowed.

    IPC_LOCK lets it lock pages beyond RLIMIT_MEMLOCK, FOWNER lets it ask the kernel about the
    pages of files that it does not own: to others the kernel answers that all are resident.
    """
    if level != "privileged":
        return _restricted(NON_ROOT_UID)
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["FOWNER", "IPC_LOCK"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsUser": 0,
        **_seccomp(),
    }


def _restricted(uid: int) -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": uid,
        **_seccomp(),
    }


def _seccomp() -> dict[str, Any]:
    return {"seccompProfile": {"type": "RuntimeDefault"}}
