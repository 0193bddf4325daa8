"""Security contexts, and what the Pod Security level of a namespace allows.

Levels: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    if level == "privileged":
        return None
    for field, remedy in _host_paths(model.spec):
        return (
            f"{field} needs hostPath, which namespace {model.namespace} forbids "
            f"({ENFORCE_LABEL}={level}): {remedy}, or another namespace"
        )
    return None


def _host_paths(spec: WarmModelSpec) -> Iterator[tuple[str, str]]:
    """The fields that bring a path of the node into the pods, each with what to use instead."""
    if spec.weights.medium == "NodeMemory":
        yield "spec.weights.medium: NodeMemory", "use PodMemory or Image"
    if spec.compile_cache.store == "Node":
        yield "spec.compileCache.store: Node", "use Pod or Image"
    for number, source in enumerate(spec.models):
        field = f"spec.additionalModels[{number - 1}]" if number else "spec.model"
        if source.node_path is not None:
            yield f"{field}.nodePath", "use an image or a persistentVolumeClaim"
        if source.remote is not None and spec.weights.staging is None:
            yield (
                f"{field}: a download to the node's disk",
                "set spec.weights.staging to a persistentVolumeClaim",
            )


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


def agent_pod_context(spec: WarmModelSpec) -> dict[str, Any]:
    """With a group that may write to the claim of downloads: the agent has no right to write what
    belongs to others, not even as root."""
    if spec.staging_claim is None:
        return _seccomp()
    group = (spec.pod.security_context or {}).get("fsGroup")
    return {
        **_seccomp(),
        "fsGroup": group if isinstance(group, int) and group > 0 else NON_ROOT_UID,
        # Else the kubelet would visit every file before each start of an agent.
        "fsGroupChangePolicy": "OnRootMismatch",
    }


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
