"""An API extension for one external metric: what a Prometheus query gives, asked anew each time.

The least of what KEDA and metrics adapters do, so that an autoscaler by requests can be tested
without either. It runs in the test's process, on an address of the node.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from support.api import Api, ApiError, JsonObject
from support.certificates import make_certificates
from support.serving import node_address
from support.waiting import wait_until

GROUP_VERSION = "external.metrics.k8s.io/v1beta1"
METRIC = "requests"
NAME = "external-metrics-of-tests"
API_SERVICES = "apis/apiregistration.k8s.io/v1/apiservices"
RESOURCES = [
    {"name": METRIC, "singularName": "", "namespaced": True, "kind": "V", "verbs": ["get"]}
]


def ask_prometheus(url: str, query: str) -> float:
    """The only series that the query gives; fails for none and for several."""
    with requests.Session() as session:
        session.trust_env = False  # no proxy between the tests and the cluster
        answer = session.get(f"{url}/api/v1/query", params={"query": query}, timeout=10)
    answer.raise_for_status()
    (series,) = answer.json()["data"]["result"]
    return float(series["value"][1])


@contextmanager
def serving_metric(
    api: Api, folder: Path, namespace: str, value: Callable[[], float]
) -> Iterator[list[float]]:
    """While the block lasts, the metric `requests` is there; yields what was answered."""
    told: list[float] = []
    server = _server(node_address(api), folder, value, told)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _register(api, namespace, server)
    try:
        wait_until("the API extension answers", lambda: _answers(api), timeout_s=60)
        yield told
    finally:
        # One that does not answer would block the deletion of namespaces.
        api.request("DELETE", f"{API_SERVICES}/v1beta1.external.metrics.k8s.io")
        server.shutdown()
        server.server_close()


def _server(
    host: str, folder: Path, value: Callable[[], float], told: list[float]
) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.split("?")[0].endswith(f"/{METRIC}"):
                told.append(value())
                self._reply(_values(told[-1]))
            elif self.path.split("?")[0] == f"/apis/{GROUP_VERSION}":
                self._reply(_document("APIResourceList", groupVersion=GROUP_VERSION))
            else:
                self.send_error(404)

        def _reply(self, body: JsonObject) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    make_certificates(folder, "extension")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "extension.crt", folder / "extension.key")
    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


def _document(kind: str, **fields: Any) -> JsonObject:
    return {"kind": kind, "apiVersion": "v1", "resources": RESOURCES, **fields}


def _values(value: float) -> JsonObject:
    item = {
        "metricName": METRIC,
        "metricLabels": {},
        "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "value": f"{value * 1000:.0f}m",
    }
    kind = "ExternalMetricValueList"
    return {"kind": kind, "apiVersion": GROUP_VERSION, "metadata": {}, "items": [item]}


def _register(api: Api, namespace: str, server: ThreadingHTTPServer) -> None:
    host, port = server.server_address[:2]
    metadata = {"name": NAME, "namespace": namespace}
    ports = [{"name": "https", "port": port}]
    labels = {"kubernetes.io/service-name": NAME}
    api.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
    )
    api.apply(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata | {"labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [str(host)], "conditions": {"ready": True}}],
            "ports": ports,
        }
    )
    group, version = GROUP_VERSION.split("/")
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {**metadata, "port": port},
        },
    }
    api.request("POST", API_SERVICES, body)


def _answers(api: Api) -> bool:
    try:
        return bool(api.request("GET", f"apis/{GROUP_VERSION}"))
    except ApiError:
        return False
