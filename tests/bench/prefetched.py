"""From the creation of a pod to the start of its engine: on a node that holds the images because a
WarmModel prefetched them, and on one that has neither."""

from __future__ import annotations

import time

from bench import plain
from bench.watching import Recorder
from support.api import Api, JsonObject
from support.models import ModelView, vllm_engine, warm_model
from support.waiting import wait_until

LIMIT_S = 300


def prefetch(api: Api, namespace: str) -> None:
    """Without an engine of its own, which would compete with the pod that is measured."""
    api.apply(warm_model("bench", namespace, engine=vllm_engine(), replicas=0))
    view = ModelView(api, "bench", namespace)
    view.wait_condition("WeightsResident", "True", timeout_s=LIMIT_S)


def start(api: Api, namespace: str) -> float:
    """Seconds from the creation of the same plain pod to its engine's first instruction."""
    recorder = Recorder(api, namespace, ("Pod",), LIMIT_S)
    deployment, _service = plain.objects(namespace, vllm_engine())
    pod = deployment["spec"]["template"]
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"]["containers"][0].pop("readinessProbe")
    identity = {"name": plain.NAME, "namespace": namespace}
    created = time.monotonic() - recorder.started
    api.apply({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": identity})

    def running() -> bool:
        return _runs(api.get("Pod", plain.NAME, namespace))

    wait_until("the engine runs", running, timeout_s=LIMIT_S)
    return recorder.first("Pod", _runs) - created


def _runs(pod: JsonObject) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    is_it = pod["metadata"]["name"] == plain.NAME
    return is_it and any("running" in status["state"] for status in statuses)
