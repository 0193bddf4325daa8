"""What closes the gate of a warm pod, and what does not."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.api import Api, JsonObject
from support.endpoints import EndpointWatch
from support.models import GATE, ModelView, condition_of, knobs, warm_model, with_engine
from support.node import Node, descendants
from support.traffic import Traffic
from support.waiting import wait_until

Create = Callable[[JsonObject], ModelView]


def test_time_outs_never_remove_the_last_pod(create: Create, node: Node, namespace: str) -> None:
    """Both engines hang at once: one pod leaves the Service, the other one stays."""
    view = create(warm_model("hung", namespace, replicas=2))
    view.wait_ready()
    wait_until("two endpoints", lambda: len(view.ready_addresses()) == 2, timeout_s=30)
    pods = [pod["metadata"]["uid"] for pod in view.engine_pods()]
    with stopped([node.engine_main(uid) for uid in pods]):
        wait_until("one endpoint", lambda: len(view.ready_addresses()) == 1, timeout_s=120)
        wait_until(
            "it says why it stays", lambda: "no other pod serves" in gates(view), timeout_s=60
        )
        assert len(view.ready_addresses()) == 1
    wait_until("both are back", lambda: len(view.ready_addresses()) == 2, timeout_s=120)


def test_sleep_by_anybody_takes_the_pod_out_and_waking_brings_it_back(
    api: Api, create: Create, namespace: str
) -> None:
    model = with_engine(
        warm_model("sleepy", namespace),
        args=["--enable-sleep-mode"],
        env=[*knobs(first_seconds=0.05), {"name": "VLLM_SERVER_DEV_MODE", "value": "1"}],
    )
    view = create(model)
    view.wait_ready()
    address = view.engine_pod()["status"]["podIP"]
    watch = EndpointWatch(api, view)
    watch.wait_for(address, ready=True, timeout_s=30)
    post(address, "/sleep?level=1")
    watch.wait_for(address, ready=False, timeout_s=30)
    assert condition_of(view.engine_pod(), GATE)["reason"] == "Asleep"
    post(address, "/wake_up")
    watch.wait_for(address, ready=True, timeout_s=30)
    with Traffic(view.service_url(), "sleepy") as traffic:  # kube-proxy follows in its own time
        wait_until("an answer", lambda: traffic.succeeded > 0, timeout_s=60)


@contextmanager
def stopped(engines: list[int]) -> Iterator[None]:
    """Engines that hang: their processes live and do nothing."""
    processes = [pid for engine in engines for pid in (engine, *descendants(engine))]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)


def gates(view: ModelView) -> str:
    return "\n".join(condition_of(pod, GATE).get("message", "") for pod in view.engine_pods())


def post(address: str, path: str) -> None:
    request = urllib.request.Request(f"http://{address}:8000{path}", method="POST")
    with urllib.request.urlopen(request, timeout=30):
        pass
