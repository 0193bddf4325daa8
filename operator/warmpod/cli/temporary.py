"""A WarmModel for the length of a command, which goes however the command ends."""

from __future__ import annotations

import copy
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from warmpod.api.v1alpha1 import MAX_NAME_LENGTH
from warmpod.cli.cluster import AlreadyExists, Cluster, ClusterError, Document
from warmpod.protocol import API_VERSION, KIND


class LeftOver(ClusterError):
    """One stands in the way, or stays behind; the message says how to remove it."""


def one_pod(model: Document, namespace: str, suffix: str, left_out: Iterable[str]) -> Document:
    """The WarmModel beside `model` that has one pod, with what its engine is started by.

    What decides which compiled code is reused stays as it is: the served name, because the path of
    the weights holds it, and the state of a standby, because an engine that can sleep has other
    options. Labels and annotations stay behind: with them a deployment tool would take it for one
    of its own. `left_out`: fields of the spec that are not wanted."""
    name = model["metadata"]["name"]
    spec = {
        field: copy.deepcopy(value)
        for field, value in model["spec"].items()
        if field not in left_out
    }
    spec["replicas"] = 1
    spec["standby"] = {**(spec.get("standby") or {}), "replicas": 0}
    spec["model"].setdefault("servedName", name)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": suffixed(name, suffix), "namespace": namespace},
        "spec": spec,
    }


def suffixed(name: str, suffix: str) -> str:
    """A name that a WarmModel can have."""
    return name[: MAX_NAME_LENGTH - len(suffix)].rstrip("-") + suffix


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
