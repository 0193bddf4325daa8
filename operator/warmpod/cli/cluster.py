"""Read what the commands need from the cluster, as plain dicts, and explain when that fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from warmpod.protocol import GROUP, PLURAL, VERSION, WARMUP_PORT
from warmpod.resources.names import MODEL_LABEL

Document = dict[str, Any]
Verb = Literal["read", "change", "create", "delete"]
_PASSIVE: dict[Verb, str] = {
    "read": "read",
    "change": "changed",
    "create": "created",
    "delete": "deleted",
}
_JSON = "application/json"

# Seconds for one request; a person waits for it.
REQUEST_SECONDS = 15

# Seconds for an answer of an engine.
ENGINE_SECONDS = 300


class ClusterError(Exception):
    """One line that says what could not be read and what helps."""


class AlreadyExists(ClusterError):
    """An object of that name exists."""


@dataclass(frozen=True)
class Snapshot:
    """A WarmModel and its pods at about one moment."""

    warm_model: Document
    pods: list[Document]


CorePlural = Literal["pods", "configmaps"]
_SINGULAR: dict[CorePlural, str] = {"pods": "pod", "configmaps": "ConfigMap"}


class Cluster:
    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        """Raises ClusterError when there is no usable kubeconfig."""
        configuration = client.Configuration()
        # The default is three attempts with a warning each; a person would rather know.
        configuration.retries = False
        self.kubeconfig, self.context = kubeconfig, context
        path = str(kubeconfig) if kubeconfig else None
        try:
            config.load_kube_config(path, context, client_configuration=configuration)
            _, active = config.list_kube_config_contexts(path)
        except (config.ConfigException, OSError, yaml.YAMLError) as error:
            raise ClusterError(
                f"no usable kubeconfig: {_first_line(error)}; set KUBECONFIG or --kubeconfig"
            ) from error
        self._api = client.ApiClient(configuration)
        self._server = str(configuration.host)
        self.default_namespace = str(active["context"].get("namespace") or "default")

    def snapshot(self, namespace: str, name: str) -> Snapshot:
        """Raises ClusterError."""
        warm_model = self._read(f"WarmModel {namespace}/{name}", _models(namespace, name))
        return Snapshot(warm_model, self.pods(namespace, name))

    def pods(self, namespace: str, name: str) -> list[Document]:
        """Of a WarmModel. Raises ClusterError."""
        query = urlencode({"labelSelector": f"{MODEL_LABEL}={name}"})
        what = f"the pods of WarmModel {namespace}/{name}"
        pods: list[Document] = self._read(what, f"{_core(namespace, 'pods')}?{query}")["items"]
        return pods

    def core_object(self, namespace: str, plural: CorePlural, name: str) -> Document:
        """One pod or ConfigMap. Raises ClusterError."""
        what = f"{_SINGULAR[plural]} {namespace}/{name}"
        return self._read(what, _core(namespace, plural, name))

    def create_core_object(
        self, namespace: str, plural: CorePlural, document: Document
    ) -> Document:
        """One pod or ConfigMap. Raises ClusterError."""
        return self._ask(
            f"{_SINGULAR[plural]} {namespace}/{document['metadata']['name']}",
            lambda: self._send("POST", _core(namespace, plural), document, _JSON),
            verb="create",
        )

    def log(self, namespace: str, pod: str) -> str:
        """What the only container of a pod has written. Raises ClusterError."""
        path = _core(namespace, "pods", pod, "log")
        what = f"the log of pod {namespace}/{pod}"
        data: bytes = self._answer(what, lambda: self._send("GET", path, None, _JSON)).data
        return data.decode(errors="replace")

    def ask_engine(
        self, namespace: str, name: str, path: str, body: Mapping[str, Any] | None
    ) -> Document:
        """Ask a serving engine of a WarmModel through its Service: GET, or POST with a body.

        The API server keeps the Authorization header to itself, so no key reaches the engine.
        Raises ClusterError."""
        url = f"/api/v1/namespaces/{namespace}/services/http:{name}:http/proxy{path}"
        return self._ask(
            f"{path} of WarmModel {namespace}/{name}",
            lambda: self._send("GET" if body is None else "POST", url, body, _JSON, ENGINE_SECONDS),
        )

    def annotate(self, namespace: str, name: str, annotation: str, text: str) -> None:
        """Set an annotation of a WarmModel. Raises ClusterError."""
        self._ask(
            f"WarmModel {namespace}/{name}",
            lambda: self._send(
                "PATCH",
                _models(namespace, name),
                {"metadata": {"annotations": {annotation: text}}},
                "application/merge-patch+json",
            ),
            verb="change",
        )

    def create(self, namespace: str, warm_model: Document) -> Document:
        """Raises ClusterError, AlreadyExists where there is one of that name."""
        name = warm_model["metadata"]["name"]
        return self._ask(
            f"WarmModel {namespace}/{name}",
            lambda: self._send(
                "POST", f"{_models(namespace)}?fieldValidation=Strict", warm_model, _JSON
            ),
            verb="create",
        )

    def delete(self, warm_model: Document) -> None:
        """That very object; what belongs to it goes in the background. Raises ClusterError."""
        metadata = warm_model["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        body = {
            "preconditions": {"uid": metadata["uid"]},
            "propagationPolicy": "Background",
        }
        self._ask(
            f"WarmModel {namespace}/{name}",
            lambda: self._send("DELETE", _models(namespace, name), body, _JSON),
            verb="delete",
        )

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        content_type: str,
        seconds: float = REQUEST_SECONDS,
    ) -> Any:
        """Raises ApiException for an answer other than success."""
        request = self._api.param_serialize(
            method,
            path,
            header_params={"Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = self._api.call_api(*request, _request_timeout=seconds)
        answer.read()
        if not 200 <= answer.status < 300:
            raise ApiException.from_response(http_resp=answer, body=None, data=None)
        return answer

    def sidecar_page(self, namespace: str, pod: str, page: str) -> Document:
        """A page of a pod's sidecar, through the API server. Raises ClusterError."""
        path = _core(namespace, "pods", f"{pod}:{WARMUP_PORT}", "proxy", page)
        return self._read(f"page /{page} of pod {namespace}/{pod}", path)

    def _read(self, what: str, path: str) -> Document:
        return self._ask(what, lambda: self._send("GET", path, None, _JSON))

    def _ask(self, what: str, request: Callable[[], Any], verb: Verb = "read") -> Document:
        answer = self._answer(what, request, verb)
        try:
            document: Document = json.loads(answer.data)
        except ValueError as error:
            raise ClusterError(f"{what} is not JSON: is warmpod of the same version?") from error
        return document

    def _answer(self, what: str, request: Callable[[], Any], verb: Verb = "read") -> Any:
        try:
            return request()
        except ApiException as error:
            conflict = verb == "create" and error.status == 409
            kind = AlreadyExists if conflict else ClusterError
            raise kind(explain(what, error.status, error.body, verb)) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterError(
                f"no answer from the cluster at {self._server}: {_first_line(error)}"
            ) from error


def explain(what: str, status: int | None, body: object, verb: Verb = "read") -> str:
    """One line for an answer of the API server other than success."""
    message = _message(body)
    if status == 404 and what.startswith("page "):
        return f"{what} does not exist: the pod's sidecar is of another version"
    if status == 404 and "page not found" in message:
        return "this cluster does not know WarmModels; install warmpod first"
    if status == 404 and "not found" in message:
        return f"there is no {what}"
    if status in (401, 403):
        return f"you may not {verb} {what}: {message}"
    return f"{what} cannot be {_PASSIVE[verb]}: {status} {message}"


def _core(namespace: str, plural: CorePlural, *names: str) -> str:
    return "/".join(("/api/v1/namespaces", *map(_quoted, (namespace, plural, *names))))


def _models(namespace: str, *names: str) -> str:
    base = f"/apis/{GROUP}/{VERSION}/namespaces"
    return "/".join((base, *map(_quoted, (namespace, PLURAL, *names))))


def _quoted(name: str) -> str:
    """One segment, whatever somebody has typed."""
    return quote(name, safe="")


def _message(body: object) -> str:
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    try:
        document = json.loads(text)
    except ValueError:
        return text.strip().split("\n")[0]
    if not isinstance(document, dict):
        return text
    # The API server's own answers have a message, those of an engine an error with one.
    error = document.get("error", "")
    return str(document.get("message") or (error["message"] if isinstance(error, dict) else error))


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].removesuffix(".")
