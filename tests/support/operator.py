"""The operator that is installed in the cluster under test."""

from __future__ import annotations

from support.api import Api, JsonObject
from support.waiting import wait_until

NAMESPACE = "warmpod-system"
NAME = "warmpod-operator"


def pods(api: Api) -> list[JsonObject]:
    return api.list("Pod", NAMESPACE, f"app.kubernetes.io/name={NAME}")


def scale(api: Api, replicas: int) -> None:
    api.patch(
        "Deployment",
        NAME,
        NAMESPACE,
        {"spec": {"replicas": replicas}},
        subresource="scale",
    )
    wait_for(api, replicas)


def wait_for(api: Api, replicas: int) -> None:
    """Waits until exactly this many operator pods exist and are ready, of the newest template."""

    def settled() -> bool:
        status = (deployment := api.get("Deployment", NAME, NAMESPACE))["status"]
        current = status.get("observedGeneration") == deployment["metadata"]["generation"]
        return (
            current
            and len(pods(api)) == replicas
            and status.get("readyReplicas", 0) == replicas
            and status.get("updatedReplicas", 0) == replicas
        )

    wait_until(f"{replicas} operator pods are ready", settled, timeout_s=120)
