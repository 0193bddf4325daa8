"""From `kubectl apply` to the first answer: a WarmModel beside a plain Deployment."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

import requests

from bench import plain
from bench.watching import Recorder
from support.api import Api, JsonObject
from support.models import ModelView, condition_of, vllm_engine, warm_model
from support.waiting import wait_until

LIMIT_S = 900
STEADY_REQUESTS = 10


@dataclass(frozen=True)
class WarmStart:
    """Seconds of each part of one start of a WarmModel."""

    pull_and_prefetch_pod: float  # scheduling, images and start of the prefetch pod
    weights: float  # its agent verifies them and makes them resident
    engine_pod: float  # scheduling, mounts and start of the engine pod's containers
    engine_start: float  # until the engine answers
    warm_up: float  # until the gate opens
    endpoint: float  # until the Service sends traffic
    operator: float  # the gaps that are neither the kubelet's nor the engine's
    to_gate: float
    to_traffic: float
    first_request_s: float
    steady_request_s: float


@dataclass(frozen=True)
class PlainStart:
    """Seconds of one start of the same engine as an ordinary Deployment."""

    to_traffic: float
    first_request_s: float
    steady_request_s: float


def measure_warm(api: Api, namespace: str) -> WarmStart:
    kinds = ("WarmModel", "DaemonSet", "Deployment", "Pod", "EndpointSlice")
    recorder = Recorder(api, namespace, kinds, LIMIT_S)
    applied = time.monotonic() - recorder.started
    api.apply(warm_model("bench", namespace, engine=vllm_engine(), warmup={}))
    view = ModelView(api, "bench", namespace)
    wait_until("traffic", view.ready_addresses, timeout_s=LIMIT_S, describe=view.conditions)
    first, steady = request_times(view.service_url(), "bench")

    daemon_set = recorder.first("DaemonSet", lambda _: True)
    agent = recorder.first("Pod", lambda pod: is_of(pod, "prefetch") and started(pod, "agent"))
    resident = recorder.first("Pod", lambda pod: holds(pod, "warmpod.io/Resident"))
    deployment = recorder.first("Deployment", lambda _: True)
    created = recorder.first("Pod", lambda pod: is_of(pod, "engine"))
    running = recorder.first("Pod", lambda pod: is_of(pod, "engine") and started(pod, "engine"))
    gate = recorder.first("Pod", lambda pod: holds(pod, "warmpod.io/Warm"))
    traffic = recorder.first("EndpointSlice", has_ready_endpoint)
    answers = running + engine_start_seconds(view)
    return WarmStart(
        pull_and_prefetch_pod=agent - daemon_set,
        weights=resident - agent,
        engine_pod=running - created,
        engine_start=answers - running,
        warm_up=gate - answers,
        endpoint=traffic - gate,
        operator=(daemon_set - applied) + (deployment - resident) + (created - deployment),
        to_gate=gate - applied,
        to_traffic=traffic - applied,
        first_request_s=first,
        steady_request_s=steady,
    )


def measure_plain(api: Api, namespace: str) -> PlainStart:
    recorder = Recorder(api, namespace, ("EndpointSlice",), LIMIT_S)
    applied = time.monotonic() - recorder.started
    for body in plain.objects(namespace, vllm_engine()):
        api.apply(body)
    view = ModelView(api, plain.NAME, namespace)
    wait_until("traffic", view.ready_addresses, timeout_s=LIMIT_S)
    first, steady = request_times(view.service_url(), plain.NAME)
    return PlainStart(recorder.first("EndpointSlice", has_ready_endpoint) - applied, first, steady)


def request_times(url: str, model: str) -> tuple[float, float]:
    """Seconds of the first streamed token of the first request, and of the median of later ones."""
    seconds = [time_to_first_token(url, model) for _ in range(1 + STEADY_REQUESTS)]
    later = sorted(seconds[1:])
    return seconds[0], later[len(later) // 2]


def time_to_first_token(url: str, model: str) -> float:
    started_at = time.monotonic()
    with requests.post(
        f"{url}/v1/chat/completions",
        json={
            "model": model,
            "messages": [{"role": "user", "content": "Tell me about warm engines."}],
            "max_tokens": 8,
            "temperature": 0.7,
            "top_p": 0.9,
            "stream": True,
        },
        stream=True,
        timeout=60,
        proxies={"http": "", "https": ""},
    ) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if line.startswith(b"data: {"):
                return time.monotonic() - started_at
    raise AssertionError("the stream had no chunk")


def engine_start_seconds(view: ModelView) -> float:
    """From the start of the launcher to the engine's first answer, as the sidecar recorded it."""

    def recorded() -> str:
        message = condition_of(view.engine_pod(), "warmpod.io/StartupTimeline").get("message", "")
        return str(message)

    timeline = json.loads(wait_until("a start-up is recorded", recorded, timeout_s=60))
    return float(timeline["http"] - timeline["launcher"])


def is_of(pod: JsonObject, component: str) -> bool:
    return bool(pod["metadata"].get("labels", {}).get("warmpod.io/component") == component)


def started(pod: JsonObject, container: str) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return any(status["name"] == container and status.get("started") for status in statuses)


def holds(pod: JsonObject, type_: str) -> bool:
    return bool(condition_of(pod, type_).get("status") == "True")


def has_ready_endpoint(found: JsonObject) -> bool:
    return any(e.get("conditions", {}).get("ready") for e in found.get("endpoints") or [])


def as_json(start: WarmStart | PlainStart) -> JsonObject:
    return {name: round(seconds, 3) for name, seconds in asdict(start).items()}
