"""Namespaces that are there for the length of a with block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.api import Api
from support.waiting import wait_until

GONE_LIMIT_S = 300


@contextmanager
def temporary_namespace(api: Api, prefix: str) -> Iterator[str]:
    """Gone at the end, with all pods: whatever comes next needs the machine for itself."""
    name: str = api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": prefix}}
    )["metadata"]["name"]
    try:
        yield name
    finally:
        api.delete("Namespace", name)
        wait_until(
            "the namespace is gone",
            lambda: api.find("Namespace", name) is None,
            timeout_s=GONE_LIMIT_S,
        )
