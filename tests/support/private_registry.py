"""A registry that wants a password: a door with a lock before the open one.

What is pushed to the open registry can be pulled from here, under the same repository and tag.
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.api import JsonObject
from support.images import REGISTRY

ADDRESS = ("127.0.0.1", 5001)
HOST = f"{ADDRESS[0]}:{ADDRESS[1]}"
TLS_HANDSHAKE = b"\x16"  # RFC 8446, 5.1: the type of its records
USER, PASSWORD = "robot", "correct horse"


def _basic(password: str) -> str:
    return base64.b64encode(f"{USER}:{password}".encode()).decode()


class _Door(BaseHTTPRequestHandler):
    def handle(self) -> None:
        """Clients try TLS first, and plain HTTP after an answer that is none."""
        if self.request.recv(1, socket.MSG_PEEK) == TLS_HANDSHAKE:
            self.request.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        else:
            super().handle()

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.headers.get("Authorization") != f"Basic {_basic(PASSWORD)}":
            self._refuse()
            return
        wanted = {
            name: value
            for name in ("Accept", "Range")
            if (value := ", ".join(self.headers.get_all(name, [])))
        }
        behind = http.client.HTTPConnection(REGISTRY, timeout=60)
        try:
            behind.request(self.command, self.path, headers=wanted)
            self._pass_on(behind.getresponse())
        finally:
            behind.close()

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""

    def _refuse(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="tests"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.end_headers()
        shutil.copyfileobj(answer, self.wfile)


@contextmanager
def private_registry() -> Iterator[None]:
    """The registry answers inside the block; connections are refused outside of it."""
    server = ThreadingHTTPServer(ADDRESS, _Door)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def pull_secret(name: str, namespace: str, password: str = PASSWORD) -> JsonObject:
    entry = {"username": USER, "password": password, "auth": _basic(password)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps({"auths": {HOST: entry}})},
    }
