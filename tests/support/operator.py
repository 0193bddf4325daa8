"""The operator that is installed in the cluster under test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.api import MERGE_PATCH, STRATEGIC_PATCH, Api, JsonObject
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


@contextmanager
def restarted(api: Api, after_s: float) -> Iterator[None]:
    """Its pods go so long after the beginning; left when the new ones are ready."""
    restart = threading.Timer(after_s, _delete, [api])
    restart.start()
    yield
    restart.join()
    wait_for(api, 1)


def _delete(api: Api) -> None:
    for pod in pods(api):
        api.delete("Pod", pod["metadata"]["name"], NAMESPACE)


@contextmanager
def removing_startup_taints(api: Api) -> Iterator[None]:
    """The operator takes the startup taint off nodes, and has the right that it needs."""
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}
    with _rules_of_nodes(api, lambda rules: [*rules, rule]):
        _set(api, "WARMPOD_REMOVE_STARTUP_TAINT", {"value": "true"})
        try:
            yield
        finally:
            _set(api, "WARMPOD_REMOVE_STARTUP_TAINT", {"$patch": "delete"})


@contextmanager
def without_nodes(api: Api) -> Iterator[None]:
    """The operator may not look at nodes; it finds that out when it starts."""
    try:
        with _rules_of_nodes(api, lambda _: []):
            _set(api, "WARMPOD_TEST", {"value": "without nodes"})
            yield
    finally:
        _set(api, "WARMPOD_TEST", {"$patch": "delete"})


@contextmanager
def _rules_of_nodes(
    api: Api, change: Callable[[list[JsonObject]], list[JsonObject]]
) -> Iterator[None]:
    role = "apis/rbac.authorization.k8s.io/v1/clusterroles/warmpod-operator-nodes"
    rules = api.request("GET", role)["rules"]

    def put(new: list[JsonObject]) -> None:
        body = {"rules": new}
        api.request("PATCH", role, body, content_type=MERGE_PATCH)

    put(change(rules))
    try:
        yield
    finally:
        put(rules)


def _set(api: Api, variable: str, change: JsonObject) -> None:
    container = {"name": "operator", "env": [{"name": variable, **change}]}
    body = {"spec": {"template": {"spec": {"containers": [container]}}}}
    found = api.patch("Deployment", NAME, NAMESPACE, body, content_type=STRATEGIC_PATCH)
    wait_for(api, found["spec"]["replicas"])
