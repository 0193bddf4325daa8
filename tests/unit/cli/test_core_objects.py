"""Pods and ConfigMaps that a command makes and reads, over HTTP as the API server speaks it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmpod.cli.cluster import AlreadyExists, Cluster, ClusterError

PODS = "/api/v1/namespaces/demo/pods"


class Server(ThreadingHTTPServer):
    """`answers` by method and path; what is posted is kept."""

    answers: dict[tuple[str, str], tuple[int, bytes]]
    posted: list[Any]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.server.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer()

    def log_message(self, *_: object) -> None:
        return

    def _answer(self) -> None:
        status, body = self.server.answers.get((self.command, self.path), (404, b"not found"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.answers, server.posted = {}, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cluster(server: Server, tmp_path: Path) -> Cluster:
    path = tmp_path / "kubeconfig"
    url = f"http://127.0.0.1:{server.server_port}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return Cluster(path, None)


def test_a_pod_is_made_and_read_and_heard(server: Server, cluster: Cluster) -> None:
    pod = {"metadata": {"name": "load"}}
    server.answers = {
        ("POST", PODS): (201, json.dumps({**pod, "kind": "Pod"}).encode()),
        ("GET", f"{PODS}/load"): (200, json.dumps({"status": {"phase": "Failed"}}).encode()),
        ("GET", f"{PODS}/load/log"): (200, "no JSON: \xfc\n".encode("latin-1")),
    }
    assert cluster.create_core_object("demo", "pods", pod)["kind"] == "Pod"
    assert server.posted == [pod]
    assert cluster.core_object("demo", "pods", "load")["status"]["phase"] == "Failed"
    assert cluster.log("demo", "load") == "no JSON: \ufffd\n"


@pytest.mark.parametrize(
    ("status", "kind", "why"),
    [
        (403, ClusterError, "you may not create pod demo/load: no"),
        (409, AlreadyExists, "pod demo/load cannot be created: 409 no"),
        (500, ClusterError, "pod demo/load cannot be created: 500 no"),
    ],
)
def test_why_it_cannot_be_made(
    server: Server, cluster: Cluster, status: int, kind: type[ClusterError], why: str
) -> None:
    server.answers = {("POST", PODS): (status, b'{"message": "no"}')}
    with pytest.raises(ClusterError, match=why) as raised:
        cluster.create_core_object("demo", "pods", {"metadata": {"name": "load"}})
    assert type(raised.value) is kind


def test_what_is_not_there_is_named(server: Server, cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="there is no ConfigMap demo/prompts"):
        cluster.core_object("demo", "configmaps", "prompts")
