"""From the write to /scale to the first answer of the new pod, beside a plain Deployment's."""

from __future__ import annotations

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
    """Quiet, with the endpoints of another Service churning, and without warmpod."""
    view = _model(api, namespace)
    pid = operator_load.operator_pid(api, node)
    quiet, cost = _series(api, view, pid)
    with Churn(api, namespace):
        churning, _ = _series(api, view, pid)
    api.delete("WarmModel", NAME, namespace)
    wait_until("all pods are gone", lambda: not api.list("Pod", namespace), timeout_s=300)
    return {
        "quiet": summary(quiet),
        "churning": summary(churning),
        "plain_deployment_s": percentiles(_plain(api, namespace)),
        "operator_cpu_ms_per_scale_out_and_in": round(1000 * cost / SCALE_OUTS, 1),
    }


def _model(api: Api, namespace: str) -> ModelView:
    """Engines are told apart by the second of their start, so the two pods come one by one."""
    api.apply(warm_model(NAME, namespace))
    view = ModelView(api, NAME, namespace)
    view.wait_ready()
    api.patch("WarmModel", NAME, namespace, {"spec": {"standby": {"replicas": 1}}})
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
    """Each the smallest that as large a part of all is not above."""
    ordered = sorted(seconds)

    def at(part: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3)

    return {
        "count": len(ordered),
        "p50": at(0.5),
        "p90": at(0.9),
        "p99": at(0.99),
        "worst": round(ordered[-1], 3),
    }
