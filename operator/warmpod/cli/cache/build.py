"""`cache build`: a temporary WarmModel compiles what the one in a file would compile.

It goes the way of every other WarmModel: the right node, the right image, warmed up by real
requests, and its entry published by the agent. So what is in the image is what pods need later.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from pathlib import Path

from warmpod.api import InvalidSpec, WarmModel
from warmpod.api.v1alpha1 import MAX_NAME_LENGTH
from warmpod.cli import files
from warmpod.cli.cache import store
from warmpod.cli.cache.entries import CacheError, Stored
from warmpod.cli.cluster import Cluster, ClusterError, Document
from warmpod.cli.pod_exec import ExecError

SUFFIX = "-cache-build"
#: Seconds between two looks at the temporary WarmModel.
LOOK_SECONDS = 5.0
#: Seconds from a warm pod to a published entry: the pod copies it in the background, and the agent
#: checks it at its next look.
PUBLISH_SECONDS = 600.0

#: Looks that may fail in a row.
ATTEMPTS = 12
NOTHING = (
    "its engine compiles nothing, or starts with what its image has compiled; to see more, apply "
    "the file with spec.compileCache.store: Node, and look at kubectl warm timeline"
)

Say = Callable[[str], object]
# What decides how many pods there are and when, none of which a build needs.
_LEFT_OUT = ("schedule", "forecast", "rollout")


def read(path: Path) -> Document:
    """The one WarmModel in a file, checked as the operator does. Raises CacheError."""
    try:
        document = files.warm_model(path)
        WarmModel.parse(files.as_admitted(document))
    except files.FileError as error:
        raise CacheError(str(error)) from error
    except InvalidSpec as error:
        raise CacheError(f"{path}: {error}") from error
    return document


def temporary(document: Document, namespace: str) -> Document:
    """The WarmModel that is built with: one pod, and a store on its node.

    What decides reuse stays as it is: the served name, because the path of the weights holds it,
    and the state of a standby, because an engine that can sleep has other options. Labels and
    annotations stay behind: with them a deployment tool would take it for one of its own."""
    name = document["metadata"]["name"]
    spec = copy.deepcopy(document["spec"])
    for field in _LEFT_OUT:
        spec.pop(field, None)
    spec["replicas"] = 1
    spec["standby"] = {"replicas": 0} | _state(spec.get("standby") or {})
    spec["compileCache"] = {"store": "Node"}
    spec["model"].setdefault("servedName", name)
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "metadata": {"name": temporary_name(name), "namespace": namespace},
        "spec": spec,
    }


def temporary_name(name: str) -> str:
    return name[: MAX_NAME_LENGTH - len(SUFFIX)].rstrip("-") + SUFFIX


def _state(standby: Document) -> Document:
    return {"state": standby["state"]} if "state" in standby else {}


def wait(cluster: Cluster, namespace: str, name: str, say: Say) -> None:
    """Until its pod is warm and an entry is published. Raises CacheError, ClusterError."""
    last = ""
    while not is_warm(status := _status(cluster, namespace, name, say)):
        if stalled := message_of(status, "Stalled", "True"):
            raise CacheError(f"WarmModel {namespace}/{name} does not become warm: {stalled}")
        told = message_of(status, "Ready", "False") or "waiting for the operator"
        if told != last:
            say(told)
            last = told
        time.sleep(LOOK_SECONDS)
    say("warm; waiting for what it compiled")
    _wait_for_entry(cluster, namespace, name)


def _status(cluster: Cluster, namespace: str, name: str, say: Say) -> Document:
    """A build lasts so long that one failed look must not end it. Raises ClusterError."""
    failures = 0
    while True:
        try:
            return cluster.snapshot(namespace, name).warm_model.get("status") or {}
        except ClusterError as error:
            failures += 1
            if failures == ATTEMPTS:
                raise
            say(f"{error}; looking again")
            time.sleep(LOOK_SECONDS)


def _wait_for_entry(cluster: Cluster, namespace: str, name: str) -> None:
    """Raises CacheError."""
    deadline = time.monotonic() + PUBLISH_SECONDS
    while True:
        found, failures = asyncio.run(_published(cluster, namespace, name))
        if found:
            return
        if time.monotonic() > deadline:
            raise CacheError(
                f"WarmModel {namespace}/{name} is warm and has published nothing: "
                + ("; ".join(failures) or NOTHING)
            )
        time.sleep(LOOK_SECONDS)


async def _published(cluster: Cluster, namespace: str, name: str) -> tuple[list[Stored], list[str]]:
    """And why there may be more."""
    failures: list[str] = []
    try:
        async with store.opened(cluster, namespace, name, None, failures.append) as stores:
            entries = await stores.entries()
            return [entry for entry in entries if entry.is_published], failures
    except (CacheError, ClusterError, ExecError) as error:
        return [], [str(error)]


def is_warm(status: Document) -> bool:
    return bool(status.get("warmReplicas"))


def message_of(status: Document, kind: str, value: str) -> str:
    """Reason and message of a condition that has this value; else empty."""
    for condition in status.get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == value:
            return f"{condition.get('reason', '')}: {condition.get('message', '')}"
    return ""
