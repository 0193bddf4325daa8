"""From the write to /scale to the first answer of the new pod, beside a plain Deployment's."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from bench import operator_load, plain
from bench.usage import processor_seconds
from support.api import Api, JsonObject
from support.endpoints import EndpointWatch
from support.models import ModelView, warm_model
from support.node import Node
from support.promotion import (
    QUIET_S,
    Churn,
    Promotion,
    RoleWatch,
    born,
    first_answer,
    promote,
    scale,
    wait_settled,
)
from support.waiting import wait_until

SCALE_OUTS = 100
PLAIN_SCALE_OUTS = 10
NAME = "promoted"
#: The plain Deployment runs the same.
ENGINE: JsonObject = warm_model(NAME, "none")["spec"]["engine"]


def measure(api: Api, node: Node, namespace: str) -> JsonObject:
    """Quiet, without warmpod, and with the endpoints of another Service churning.

    Tells each part as it ends, since all of them together take over an hour."""
    view = model_with_pool(api, namespace, NAME)
    pid = operator_load.operator_pid(api, node)
    quiet, cost = _series(api, view, pid)
    parts: JsonObject = {"quiet": summary(quiet)}
    parts["operator_cpu_ms_per_scale_out_and_in"] = round(1000 * cost / SCALE_OUTS, 1)
    _tell(parts)
    parts["plain_deployment_s"] = percentiles(_plain(api, namespace))
    _tell(parts)
    with Churn(api, namespace):
        churning, _ = _series(api, view, pid)
    return {**parts, "churning": summary(churning)}


def _tell(parts: JsonObject) -> None:
    print(json.dumps(parts), file=sys.stderr, flush=True)


def model_with_pool(api: Api, namespace: str, name: str) -> ModelView:
    """One pod serves, one waits.

    Engines are told apart by the second of their start, so the two come one by one."""
    api.apply(warm_model(name, namespace))
    view = ModelView(api, name, namespace)
    view.wait_ready()
    api.patch("WarmModel", name, namespace, {"spec": {"standby": {"replicas": 1}}})
    wait_settled(view, 1, 1)
    return view


def _series(api: Api, view: ModelView, operator_pid: int) -> tuple[list[Promotion], float]:
    """The promotions, and the operator's processor seconds for them and for all that follows."""
    roles = RoleWatch(api, view.namespace)
    endpoints = EndpointWatch(api, view, timeout_s=3600)
    found = []
    before = processor_seconds(operator_pid)
    for _ in range(SCALE_OUTS):
        time.sleep(QUIET_S)
        found.append(promote(api, view, roles, endpoints, 2))
        wait_settled(view, 2, 1)
        scale(api, view, 1)
        wait_settled(view, 1, 1)
    return found, processor_seconds(operator_pid) - before


def _plain(api: Api, namespace: str) -> list[float]:
    for obj in plain.objects(namespace, ENGINE):
        api.apply(obj)
    service = api.get("Service", plain.NAME, namespace)
    url = f"http://{service['spec']['clusterIP']}:8000"
    _wait_for_plain(api, namespace, 1)
    return [_scale_plain(api, namespace, url) for _ in range(PLAIN_SCALE_OUTS)]


def _scale_plain(api: Api, namespace: str, url: str) -> float:
    time.sleep(QUIET_S)
    others = {born(url)}
    written = time.monotonic()
    _set_plain(api, namespace, 2)
    took = first_answer(url, plain.NAME, others) - written
    _set_plain(api, namespace, 1)
    _wait_for_plain(api, namespace, 1)
    return took


def _set_plain(api: Api, namespace: str, replicas: int) -> None:
    body = {"spec": {"replicas": replicas}}
    api.patch("Deployment", plain.NAME, namespace, body, subresource="scale")


def _wait_for_plain(api: Api, namespace: str, count: int) -> None:
    def settled() -> bool:
        pods = api.list("Pod", namespace, f"app={plain.NAME}")
        status = api.get("Deployment", plain.NAME, namespace)["status"]
        return len(pods) == count and status.get("readyReplicas") == count

    wait_until(f"{count} plain pods", settled, timeout_s=180)


def summary(promotions: Sequence[Promotion]) -> JsonObject:
    """Seconds since the write, by percentile."""
    steps = [asdict(promotion) for promotion in promotions]
    return {name: percentiles([step[name] for step in steps]) for name in steps[0]}


def percentiles(seconds: Sequence[float]) -> JsonObject:
    """By the nearest rank: the smallest that so many of a hundred are not above."""
    ordered = sorted(seconds)

    def at(percent: int) -> float:
        return round(ordered[math.ceil(len(ordered) * percent / 100) - 1], 3)

    return {
        "count": len(ordered),
        "p50": at(50),
        "p90": at(90),
        "p99": at(99),
        "worst": round(ordered[-1], 3),
        "all": [round(each, 3) for each in seconds],
    }
