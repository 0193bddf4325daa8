"""Devices that are a number for the scheduler: the local node has none, and nobody uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.api import Api, JsonObject
from support.nodes import change_status
from support.waiting import wait_until

GPU = "nvidia.com/gpu"


@contextmanager
def fake_gpus(api: Api, count: int) -> Iterator[None]:
    """The real node says that it has so many, until the test ends."""
    name = _node(api)["metadata"]["name"]
    number = {GPU: str(count)}
    change_status(api, name, {"capacity": number, "allocatable": number})
    try:
        wait_until(f"the node has {count} GPUs", lambda: _allocatable(api) == count, timeout_s=60)
        yield
    finally:
        change_status(api, name, {"capacity": {GPU: None}, "allocatable": {GPU: None}})


def _allocatable(api: Api) -> int:
    return int(_node(api)["status"]["allocatable"].get(GPU, 0))


def _node(api: Api) -> JsonObject:
    (found,) = [
        node
        for node in api.list("Node")
        if "kwok.x-k8s.io/node" not in node["metadata"].get("annotations", {})
    ]
    return found
