"""A WarmModel for the length of a command, which goes however the command ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from warmpod.cli.cluster import AlreadyExists, Cluster, ClusterError, Document


class LeftOver(ClusterError):
    """One stands in the way, or stays behind; the message says how to remove it."""


@contextmanager
def applied(cluster: Cluster, document: Document) -> Iterator[Document]:
    """The WarmModel as the API server has it, until the block ends, also by Ctrl-C or SIGTERM.

    Raises ClusterError."""
    metadata = document["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    remedy = f"kubectl delete warmmodel -n {namespace} {name}"
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        created = cluster.create(namespace, document)
        try:
            yield created
        finally:
            _delete(cluster, created, remedy)
    except AlreadyExists as error:
        raise LeftOver(
            f"WarmModel {namespace}/{name} exists already: the same command runs elsewhere, or "
            f"was killed; then remove it: {remedy}"
        ) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def _delete(cluster: Cluster, created: Document, remedy: str) -> None:
    try:
        cluster.delete(created)
    except ClusterError as error:
        raise LeftOver(f"{error}; it is still there, remove it: {remedy}") from error
