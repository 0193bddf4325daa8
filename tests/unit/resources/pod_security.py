"""Pod Security Standards, as far as our pods could break them.

https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_BASELINE_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}
_RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def violations(pod_spec: Json, level: str) -> list[str]:
    """What the level forbids in the pod, in words."""
    if level == "privileged":
        return []
    found = [*_baseline_pod(pod_spec)]
    for item in [*pod_spec.get("initContainers", []), *pod_spec["containers"]]:
        found += [f"{item['name']}: {text}" for text in _baseline_container(item)]
        if level == "restricted":
            effective = pod_spec.get("securityContext", {}) | item.get("securityContext", {})
            found += [f"{item['name']}: {text}" for text in _restricted_container(effective)]
    if level == "restricted":
        for volume in pod_spec["volumes"]:
            found += [
                f"volume {volume['name']}: {kind}"
                for kind in volume.keys() - {"name"} - _RESTRICTED_VOLUMES
            ]
    return found


def _baseline_pod(pod_spec: Json) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod_spec.get(field):
            yield field
    for volume in pod_spec["volumes"]:
        if "hostPath" in volume:
            yield f"volume {volume['name']}: hostPath"


def _baseline_container(item: Json) -> Iterator[str]:
    context = item.get("securityContext", {})
    if context.get("privileged"):
        yield "privileged"
    added = set(context.get("capabilities", {}).get("add", []))
    if added - _BASELINE_CAPABILITIES:
        yield f"capabilities {added - _BASELINE_CAPABILITIES}"
    if any("hostPort" in port for port in item.get("ports", [])):
        yield "hostPort"


def _restricted_container(context: Json) -> Iterator[str]:
    if context.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if context.get("runAsNonRoot") is not True:
        yield "runAsNonRoot"
    if context.get("runAsUser") == 0:
        yield "runAsUser"
    if context.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile"
    capabilities = context.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield "capabilities are not dropped"
    if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield "capabilities are added"
