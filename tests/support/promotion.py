"""When a pod that is to serve does so: its label, its endpoint, its first answer."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from support.api import Api, JsonObject
from support.background import Background
from support.endpoints import EndpointWatch
from support.models import ModelView
from support.waiting import wait_until

LIMIT_S = 60
#: kube-proxy writes its rules at most once a second; after that much it has nothing left to write.
QUIET_S = 2.5
#: Enough for a request to be noticed that met a pod that was not ready for it.
SLOW_S = 2.0


@dataclass(frozen=True)
class Promotion:
    """Seconds since the write to /scale."""

    label: float
    endpoint: float
    answer: float


class RoleWatch:
    """Notes the moment when a pod is seen with the role `serving`."""

    def __init__(self, api: Api, namespace: str, timeout_s: int = 3600) -> None:
        self._serving: dict[str, float] = {}
        self._changed = threading.Condition()
        events = api.watch("Pod", namespace, timeout_s)
        threading.Thread(target=self._run, args=(events,), daemon=True).start()

    def _run(self, events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            metadata: JsonObject = event["object"].get("metadata", {})
            role = metadata.get("labels", {}).get("warmpod.io/role")
            with self._changed:
                if role == "serving":
                    self._serving.setdefault(metadata["name"], time.monotonic())
                else:
                    self._serving.pop(metadata.get("name", ""), None)
                self._changed.notify_all()

    def wait_for(self, pod: str) -> float:
        with self._changed:
            held = self._changed.wait_for(lambda: pod in self._serving, timeout=LIMIT_S)
            assert held, f"{pod} does not serve within {LIMIT_S} s"
            return self._serving[pod]


@dataclass
class Churn(Background):
    """Another Service whose endpoints change all the time, as those of others do in a cluster."""

    api: Api
    namespace: str
    period_s: float = field(default=0.2, kw_only=True)
    _number: int = 0

    def step(self) -> None:
        if not self._number:
            self.api.apply(_service(self.namespace))
        self._number += 1
        self.api.apply(_endpoints(self.namespace, f"192.0.2.{1 + self._number % 250}"))


def _service(namespace: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "churn", "namespace": namespace},
        "spec": {"ports": [{"port": 80}]},
    }


def _endpoints(namespace: str, address: str) -> JsonObject:
    labels = {"kubernetes.io/service-name": "churn"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "churn", "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [{"port": 80}],
    }


def role_of(pod: JsonObject) -> str:
    return str(pod["metadata"]["labels"].get("warmpod.io/role", ""))


def staying(view: ModelView, role: str) -> list[JsonObject]:
    return [
        pod
        for pod in view.engine_pods()
        if role_of(pod) == role and "deletionTimestamp" not in pod["metadata"]
    ]


def scale(api: Api, view: ModelView, replicas: int) -> float:
    """Gives the moment (monotonic) before the write."""
    moment = time.monotonic()
    body = {"spec": {"replicas": replicas}}
    api.patch("WarmModel", view.name, view.namespace, body, subresource="scale")
    return moment


def wait_settled(view: ModelView, serving: int, standby: int) -> None:
    """Until as many pods as asked for serve and are held back, all warm, and no other is there."""

    def settled() -> bool:
        pods = view.engine_pods()
        filled = view.condition("StandbyReady").get("status") == "True"
        counts = (len(staying(view, "serving")), len(staying(view, "standby")))
        whole = counts == (serving, standby) and len(pods) == serving + standby
        return whole and filled and len(view.ready_addresses()) == serving

    wait_until(
        f"{serving} serve and {standby} wait", settled, timeout_s=300, describe=view.conditions
    )


def promote(
    api: Api, view: ModelView, roles: RoleWatch, endpoints: EndpointWatch, replicas: int
) -> Promotion:
    """Scales out by one, from a settled state with one standby pod."""
    (spare,) = staying(view, "standby")
    serving = {born(pod_url(pod)) for pod in staying(view, "serving")}
    assert born(pod_url(spare)) not in serving, "the two could not be told apart"
    url = view.service_url()
    written = scale(api, view, replicas)
    answered = first_answer(url, view.name, serving)
    return Promotion(
        label=roles.wait_for(spare["metadata"]["name"]) - written,
        endpoint=endpoints.wait_for(spare["status"]["podIP"], ready=True, timeout_s=LIMIT_S)
        - written,
        answer=answered - written,
    )


def pod_url(pod: JsonObject) -> str:
    return f"http://{pod['status']['podIP']}:8000"


def born(url: str) -> int:
    """Which simulated engine answers there: the second in which it was started."""
    connection = _connect(url)
    try:
        return _born(connection)
    finally:
        connection.close()


def first_answer(url: str, model: str, others: set[int]) -> float:
    """The moment (monotonic) of the first completion by an engine that is none of the others,
    asked for on new connections without a pause."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        connection = _connect(url)
        try:
            if _born(connection) not in others:
                _complete(connection, model)
                return time.monotonic()
        except (OSError, http.client.HTTPException):
            continue  # nobody serves yet
        finally:
            connection.close()
    raise AssertionError(f"no other engine answers at {url} within {LIMIT_S} s")


def _connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    assert parts.hostname is not None
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)


def _born(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/v1/models")
    found = json.loads(connection.getresponse().read())
    return int(found["data"][0]["created"])


def _complete(connection: http.client.HTTPConnection, model: str) -> None:
    """On the same connection, so by the same engine."""
    body = json.dumps({"model": model, "prompt": "Hello", "max_tokens": 1})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 200, answer
