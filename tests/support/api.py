"""A thin client of the API server for tests: dict bodies in, dict bodies out.

The typed client drops fields that it does not know, and `kubectl` costs a
process for every call, which is too much for a test that samples ten times a
second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
from kubernetes import client, config

JsonObject = dict[str, Any]

SERVER_SIDE_APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
# whom the API server takes the tests for, when it writes down who set a field
MANAGER = "tests"

# plural name and API prefix of every kind that the tests touch
KINDS: dict[str, tuple[str, str]] = {
    "WarmModel": ("apis/warmpod.io/v1alpha1", "warmmodels"),
    "Pod": ("api/v1", "pods"),
    "Service": ("api/v1", "services"),
    "Event": ("api/v1", "events"),
    "ConfigMap": ("api/v1", "configmaps"),
    "Secret": ("api/v1", "secrets"),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims"),
    "ServiceAccount": ("api/v1", "serviceaccounts"),
    "Deployment": ("apis/apps/v1", "deployments"),
    "DaemonSet": ("apis/apps/v1", "daemonsets"),
    "ReplicaSet": ("apis/apps/v1", "replicasets"),
    "ControllerRevision": ("apis/apps/v1", "controllerrevisions"),
    "EndpointSlice": ("apis/discovery.k8s.io/v1", "endpointslices"),
    "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets"),
    "Role": ("apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "HorizontalPodAutoscaler": ("apis/autoscaling/v2", "horizontalpodautoscalers"),
    "ScaledObject": ("apis/keda.sh/v1alpha1", "scaledobjects"),
    "Lease": ("apis/coordination.k8s.io/v1", "leases"),
}
CLUSTER_KINDS: dict[str, tuple[str, str]] = {
    "Namespace": ("api/v1", "namespaces"),
    "Node": ("api/v1", "nodes"),
    "PersistentVolume": ("api/v1", "persistentvolumes"),
}


class ApiError(Exception):
    """The API server refused a request; `status` is the HTTP status code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Api:
    """Requests to the API server as the user of a kubeconfig file."""

    def __init__(self, kubeconfig: Path, token: str | None = None) -> None:
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        self._host = settings.host
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy between the tests and the cluster
        self._session.verify = settings.ssl_ca_cert or True
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"
        elif settings.cert_file:
            self._session.cert = (settings.cert_file, settings.key_file)
        elif authorization := settings.get_api_key_with_prefix("authorization"):
            self._session.headers["Authorization"] = authorization

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **parameters: str,
    ) -> JsonObject:
        response = self._session.request(
            method,
            f"{self._host}/{path}",
            params=parameters,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
            timeout=30,
        )
        if not response.ok:
            raise ApiError(response.status_code, _message(response))
        result: JsonObject = response.json()
        return result

    def get(self, kind: str, name: str, namespace: str = "") -> JsonObject:
        return self.request("GET", resource_path(kind, namespace, name))

    def find(self, kind: str, name: str, namespace: str = "") -> JsonObject | None:
        """The object, or None where there is none."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str = "", selector: str = "") -> list[JsonObject]:
        parameters = {"labelSelector": selector} if selector else {}
        answer = self.request("GET", resource_path(kind, namespace), **parameters)
        items: list[JsonObject] = answer["items"]
        return items

    def apply(self, body: JsonObject, manager: str = MANAGER) -> JsonObject:
        metadata = body["metadata"]
        path = resource_path(body["kind"], metadata.get("namespace", ""), metadata["name"])
        return self.request(
            "PATCH",
            path,
            body,
            content_type=SERVER_SIDE_APPLY,
            fieldManager=manager,
            force="true",
            fieldValidation="Strict",
        )

    def create(self, body: JsonObject) -> JsonObject:
        path = resource_path(body["kind"], body["metadata"].get("namespace", ""))
        return self.request("POST", path, body, fieldValidation="Strict")

    def patch(
        self,
        kind: str,
        name: str,
        namespace: str,
        body: Any,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> JsonObject:
        path = resource_path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", path, body, content_type=content_type, fieldManager=MANAGER)

    def delete(
        self, kind: str, name: str, namespace: str = "", *, policy: str = "Background"
    ) -> None:
        """Deletes the object; fine if there is none."""
        try:
            self.request("DELETE", resource_path(kind, namespace, name), propagationPolicy=policy)
        except ApiError as error:
            if error.status != 404:
                raise

    def watch(self, kind: str, namespace: str, timeout_s: int) -> Iterator[JsonObject]:
        """Events of all objects of a kind, beginning with those that exist."""
        with self._session.get(
            f"{self._host}/{resource_path(kind, namespace)}",
            params={"watch": "true", "timeoutSeconds": str(timeout_s)},
            stream=True,
            timeout=timeout_s + 30,
        ) as response:
            for line in response.iter_lines(chunk_size=None):
                yield json.loads(line)


def resource_path(kind: str, namespace: str = "", name: str = "") -> str:
    if kind in CLUSTER_KINDS:
        prefix, plural = CLUSTER_KINDS[kind]
        parts = [prefix, plural]
    else:
        prefix, plural = KINDS[kind]
        parts = [prefix, "namespaces", namespace, plural] if namespace else [prefix, plural]
    return "/".join([*parts, name] if name else parts)


def _message(response: requests.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError):
        return response.text
