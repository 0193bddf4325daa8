"""A web server with a directory of files and its listing, for pods of the local node."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.api import Api


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@contextmanager
def file_server(address: str, directory: Path) -> Iterator[str]:
    """Serves the directory on a free port of the address; gives the URL of its listing."""
    server = ThreadingHTTPServer((address, 0), partial(_Quiet, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://{address}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def node_address(api: Api) -> str:
    """An address of this machine that pods of the local node reach."""
    (node,) = [
        node
        for node in api.list("Node")
        if "kwok.x-k8s.io/node" not in node["metadata"].get("annotations", {})
    ]
    addresses = {entry["type"]: entry["address"] for entry in node["status"]["addresses"]}
    found: str = addresses["InternalIP"]
    return found
