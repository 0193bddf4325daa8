"""Starts of the same engine as people write it by hand: a Deployment with a probe."""

from __future__ import annotations

import shutil
import time
from typing import Any

from bench import plain
from gpu import pods
from gpu.readings import GpuMemory, of_log
from gpu.results import REPEATS, Results
from gpu.setting import PLAIN, PLAIN_CACHES, Setting
from support.api import Api
from support.clients import Client
from support.models import ModelView
from support.node import Node

JsonObject = dict[str, Any]

# Starts that take longer than a minute are not repeated as often.
SLOW_S, SLOW_REPEATS = 60.0, 2


def first_start(api: Api, setting: Setting, results: Results) -> None:
    """Nothing is in the page cache or compiled. No WarmModel holds the weights meanwhile."""
    pods.new_namespace(api, PLAIN)
    shutil.rmtree(PLAIN_CACHES, ignore_errors=True)
    pods.drop_page_cache()
    started = time.monotonic()
    for body in setting.plain_objects():
        api.apply(body)
    _measure(api, results, set(), started)
    client = Client(ModelView(api, plain.NAME, PLAIN).service_url())
    results.note(features=pods.measure_features(client, plain.NAME))


def later_starts(api: Api, setting: Setting, results: Results) -> None:
    """Files are in the page cache, and what was compiled before is in a volume of the node."""
    _running(api, setting)
    for number in results.repeats(REPEATS):
        known = _pods(api)
        started = time.monotonic()
        for pod in known:
            pods.remove(api, pod)  # another one takes its place at once
        start = _measure(api, results, pods.names(known), started)
        if number + 1 >= SLOW_REPEATS and (start["to_answer_s"] or SLOW_S) >= SLOW_S:
            break
    pods.remove_namespaces(api, PLAIN)


def _measure(api: Api, results: Results, known: set[str], started: float) -> JsonObject:
    view = ModelView(api, plain.NAME, PLAIN)
    with GpuMemory() as memory:
        pod = pods.new_pod(lambda: _pods(api), known, view)
        took = round(time.monotonic() - started, 2)
        container = Node().container_pid(pod["metadata"]["uid"], "engine")
        start = of_log(pods.engine_log(pod), pods.started_at(container))
        start |= {"to_traffic_s": took, "gpu_memory_mib": {"ready": memory.at(time.time())}}
    results.add("starts", start)
    return start


def _running(api: Api, setting: Setting) -> None:
    """The Deployment of `first_start`, made where it is not there."""
    pods.ensure_namespace(api, PLAIN)
    for body in setting.plain_objects():
        api.apply(body)
    pods.new_pod(lambda: _pods(api), set(), ModelView(api, plain.NAME, PLAIN))


def _pods(api: Api) -> list[JsonObject]:
    return api.list("Pod", PLAIN, f"app={plain.NAME}")
