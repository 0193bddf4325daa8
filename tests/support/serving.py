"""Sources of weights on this machine that pods of the local node reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from support.api import Api
from support.file_server import FileServer, running

Server = TypeVar("Server", bound=FileServer)


@contextmanager
def serving(api: Api, kind: type[Server], root: Path, **options: object) -> Iterator[Server]:
    """A server of a directory on an address of the node, and on no other."""
    server = kind(root, 0, node_address(api), **options)
    with running(server):
        yield server


def url_of(server: FileServer) -> str:
    """Without a slash at the end."""
    host, port = server.server_address[:2]
    return f"http://{host!s}:{port}"


def node_address(api: Api) -> str:
    (node,) = [
        node
        for node in api.list("Node")
        if "kwok.x-k8s.io/node" not in node["metadata"].get("annotations", {})
    ]
    addresses = {entry["type"]: entry["address"] for entry in node["status"]["addresses"]}
    found: str = addresses["InternalIP"]
    return found
