"""`cache build`: a temporary WarmModel compiles what the one in a file would compile.

It goes the way of every other WarmModel: the right node, the right image, warmed up by real
requests, and its entry published by the agent. So what is in the image is what pods need later.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from warmpod.api import InvalidSpec, WarmModel
from warmpod.cli import files
from warmpod.cli.cache import store
from warmpod.cli.cache.entries import CacheError, Stored
from warmpod.cli.cluster import Cluster, ClusterError, Document
from warmpod.cli.pod_exec import ExecError
from warmpod.cli.temporary import one_pod
from warmpod.cli.waiting import Tell, Waiting

SUFFIX = "-cache-build"
#: Seconds from a warm pod to a published entry: the pod copies it in the background, and the agent
#: checks it at its next look.
PUBLISH_SECONDS = 600.0
NOTHING = (
    "its engine compiles nothing, or starts with what its image has compiled; to see more, apply "
    "the file with spec.compileCache.store: Node, and look at kubectl warm timeline"
)

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
    """The WarmModel that is built with: one pod, and a store on its node."""
    made = one_pod(document, namespace, SUFFIX, _LEFT_OUT)
    made["spec"]["compileCache"] = {"store": "Node"}
    return made


def wait(cluster: Cluster, namespace: str, name: str, tell: Tell) -> None:
    """Until its pod is warm and an entry is published. Raises CacheError, ClusterError."""
    waiting = Waiting(cluster, tell)
    if why := waiting.until(namespace, name, "warmReplicas"):
        raise CacheError(f"WarmModel {namespace}/{name} does not become warm: {why}")
    tell("warm; waiting for what it compiled")
    _wait_for_entry(waiting, namespace, name)


def _wait_for_entry(waiting: Waiting, namespace: str, name: str) -> None:
    """Raises CacheError."""
    deadline = time.monotonic() + PUBLISH_SECONDS
    while True:
        found, failures = asyncio.run(_published(waiting.cluster, namespace, name))
        if found:
            return
        if time.monotonic() > deadline:
            raise CacheError(
                f"WarmModel {namespace}/{name} is warm and has published nothing: "
                + ("; ".join(failures) or NOTHING)
            )
        waiting.pause()


async def _published(cluster: Cluster, namespace: str, name: str) -> tuple[list[Stored], list[str]]:
    """And why there may be more."""
    failures: list[str] = []
    try:
        async with store.opened(cluster, namespace, name, None, failures.append) as stores:
            entries = await stores.entries()
            return [entry for entry in entries if entry.is_published], failures
    except (CacheError, ClusterError, ExecError) as error:
        return [], [str(error)]
