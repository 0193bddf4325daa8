"""The operator's own memory and processor time, idle and with many WarmModels."""

from __future__ import annotations

from bench.usage import Usage, measure
from support import operator
from support.api import Api
from support.models import ModelView, warm_model
from support.node import Node
from support.nodes import ON_FAKE_NODES, fake_nodes, play
from support.waiting import wait_until

IDLE_SECONDS = 30
MODELS = 100
NODES = 10


def operator_pid(api: Api, node: Node) -> int:
    (pod,) = operator.pods(api)
    return node.container_pid(pod["metadata"]["uid"], "operator")


def measure_idle(api: Api, node: Node) -> Usage:
    return measure(operator_pid(api, node), IDLE_SECONDS)


def measure_with_many(api: Api, node: Node, namespace: str) -> Usage:
    """With a hundred WarmModels that are Ready on ten fake nodes."""
    with fake_nodes(api, NODES):
        views = []
        for number in range(MODELS):
            name = f"many-{number}"
            api.apply(warm_model(name, namespace, pod=ON_FAKE_NODES))
            views.append(ModelView(api, name, namespace))
        wait_until("all models are ready", lambda: _play(api, namespace, views), timeout_s=900)
        usage = measure(operator_pid(api, node), IDLE_SECONDS)
        for view in views:
            api.delete("WarmModel", view.name, namespace)
        wait_until("all pods are gone", lambda: not api.list("Pod", namespace), timeout_s=300)
        return usage


def _play(api: Api, namespace: str, views: list[ModelView]) -> bool:
    """Plays the pods; true when all models are ready."""
    play(api, api.list("Pod", namespace, "warmpod.io/component"))
    return all(view.condition("Ready").get("status") == "True" for view in views)
