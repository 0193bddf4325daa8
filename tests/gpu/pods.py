"""Pods of the measurements, and the operator beside them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import features
from gpu import machine
from gpu.setting import NAMESPACES
from support import operator
from support.api import Api, ApiError, resource_path
from support.clients import Client
from support.features import TOOLS, chat_features
from support.models import ModelView
from support.waiting import wait_until

JsonObject = dict[str, Any]

FEATURES = [*chat_features(), TOOLS]
# A start that takes longer has failed: the rest of the pass is worth more than to wait for it.
LIMIT_S = 300


def staying(pods: list[JsonObject]) -> list[JsonObject]:
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def names(pods: list[JsonObject]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def new_pod(
    pods: Callable[[], list[JsonObject]], known: set[str], view: ModelView, limit_s: float = LIMIT_S
) -> JsonObject:
    """The first pod that is none of those and takes traffic."""

    def serving() -> JsonObject | None:
        addresses = view.ready_addresses()
        for pod in pods():
            if pod["metadata"]["name"] not in known and pod["status"].get("podIP") in addresses:
                return pod
        return None

    found = wait_until("traffic", serving, timeout_s=limit_s, describe=view.conditions)
    assert found is not None
    return found


def remove(api: Api, pod: JsonObject) -> None:
    """At once, without its grace period."""
    metadata = pod["metadata"]
    path = resource_path("Pod", metadata["namespace"], metadata["name"])
    try:
        api.request("DELETE", path, gracePeriodSeconds="0")
    except ApiError as error:
        if error.status != 404:
            raise


def only_pod(api: Api, view: ModelView) -> JsonObject:
    """The one engine pod; those on their way out are removed, so that the GPU is free of them."""

    def alone() -> JsonObject | None:
        pods = view.engine_pods()
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                remove(api, pod)
        return pods[0] if len(pods) == 1 else None

    found = wait_until("one pod is left", alone, timeout_s=60, describe=view.conditions)
    assert found is not None
    return found


def new_namespace(api: Api, name: str) -> None:
    """Without what earlier measurements have left: one GPU has no room for all of their pods."""
    remove_namespaces(api, *NAMESPACES)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def ensure_namespace(api: Api, name: str) -> None:
    """Alone, as well."""
    remove_namespaces(api, *(other for other in NAMESPACES if other != name))
    if api.find("Namespace", name) is None:
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def remove_namespaces(api: Api, *wanted: str) -> None:
    """With all that runs there. Pods that a controller would replace are removed afterwards."""
    for name in wanted:
        api.delete("Namespace", name)
    for name in wanted:
        if api.find("Namespace", name):
            for pod in api.list("Pod", name, "warmpod.io/component!=prefetch"):
                remove(api, pod)
        gone = lambda name=name: api.find("Namespace", name) is None  # noqa: E731
        wait_until(f"namespace {name} is gone", gone, timeout_s=120)


def ensure_operator(api: Api) -> None:
    """A measurement that broke off may have left it switched off."""
    operator.scale(api, 1)


@contextmanager
def without_operator(api: Api) -> Iterator[None]:
    """It would call pods to sleep and to wake that are to do so at another moment."""
    operator.scale(api, 0)
    try:
        yield
    finally:
        operator.scale(api, 1)


def started_at(pid: int) -> float:
    """When a process was started, in unix seconds."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    up = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")


def drop_page_cache() -> None:
    """All of it that nothing holds: weights, libraries, Python files."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def measure_features(client: Client, model: str) -> JsonObject:
    """Seconds of the first request of each feature, and of the median of later ones."""
    measured = features.measure(client, model, FEATURES)
    return {
        name: {key: round(value, 4) for key, value in asdict(times).items() if value is not None}
        for name, times in measured.items()
    }


def engine_log(pod: JsonObject) -> list[str]:
    """What an engine said, each line with its time; kept beside the steps' own logs as well."""
    metadata = pod["metadata"]
    command = ["kubectl", "logs", f"--namespace={metadata['namespace']}", metadata["name"]]
    command += ["--container=engine", "--tail=-1", "--timestamps"]
    said = subprocess.run(command, capture_output=True, check=False).stdout
    log = machine.STEPS / f"{metadata['namespace']}-{metadata['name']}-{time.time():.0f}.log"
    log.write_bytes(said)
    return said.decode(errors="replace").splitlines()
