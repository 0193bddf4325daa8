"""No request reaches an engine boot that has not been exercised."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from support.api import Api, JsonObject
from support.endpoints import EndpointWatch, GateSampler
from support.models import ModelView, condition_of, container_status, warm_model, with_engine
from support.node import Node, children, kill
from support.traffic import Traffic, complete
from support.waiting import wait_until

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]

KILLS = 10
# What the gate alone takes was measured at 31 ms, the kubelet alone at 960 ms.
OUT_OF_ENDPOINTS_S = 0.2
# A pod that is killed has served for a while, not just come into the endpoints.
SERVING_S = 3


def test_pod_is_no_endpoint_before_its_gate_opens(create: Create, namespace: str) -> None:
    model = with_engine(
        warm_model("cold", namespace, replicas=2), sim={"load_seconds": 2, "first_seconds": 1}
    )
    view = create(model)
    with GateSampler(view) as sampler:
        view.wait_ready()
        with Traffic(view.service_url(), "cold") as traffic:
            wait_until("fifty requests", lambda: traffic.succeeded >= 50, timeout_s=60)
    assert sampler.samples > 20
    assert sampler.violations == []
    assert traffic.failures == []


def test_first_request_of_a_user_is_not_a_slow_one(create: Create, namespace: str) -> None:
    """The simulator's first request of each kind takes four seconds; a user never sees one."""
    model = with_engine(warm_model("slowfirst", namespace), sim={"first_seconds": 4})
    view = create(model)
    view.wait_ready(timeout_s=240)
    complete(view.service_url(), "slowfirst", timeout_s=3)


@pytest.mark.parametrize("victim", ["main", "core"])
def test_killed_engine_is_out_at_once_and_back_after_its_own_warm_up(
    api: Api, node: Node, create: Create, namespace: str, victim: str
) -> None:
    view = create(warm_model("killed", namespace))
    view.wait_ready()
    pod = view.engine_pod()
    address, restarts = pod["status"]["podIP"], container_status(pod, "engine")["restartCount"]
    watch = EndpointWatch(api, view)
    watch.wait_for(address, ready=True, timeout_s=30)
    delays = []
    with GateSampler(view) as sampler:
        for _ in range(KILLS if victim == "main" else 2):
            watch.wait_for_lasting(address, seconds=SERVING_S, timeout_s=120)
            boot = boot_of(view)
            uid = pod["metadata"]["uid"]
            pid = node.engine_main(uid) if victim == "main" else node.engine_core(uid)
            killed = time.monotonic()
            kill(pid)
            delays.append(watch.wait_for(address, ready=False, timeout_s=10) - killed)
            watch.wait_for(address, ready=True, timeout_s=120)
            assert boot_of(view) not in ("", boot)
    assert sampler.violations == []
    assert statistics.median(delays) < OUT_OF_ENDPOINTS_S, delays
    # In place: neither the pod nor its container was started anew.
    after = view.engine_pod()
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert container_status(after, "engine")["restartCount"] == restarts


def test_kill_with_the_operator_away(
    api: Api, node: Node, create: Create, namespace: str, operator_away: Callable[[], object]
) -> None:
    view = create(warm_model("alone", namespace))
    view.wait_ready()
    pod = view.engine_pod()
    address = pod["status"]["podIP"]
    watch = EndpointWatch(api, view)
    watch.wait_for(address, ready=True, timeout_s=30)
    with operator_away(), GateSampler(view) as sampler:  # type: ignore[attr-defined]
        boot = boot_of(view)
        kill(node.engine_main(pod["metadata"]["uid"]))
        watch.wait_for(address, ready=False, timeout_s=10)
        watch.wait_for(address, ready=True, timeout_s=120)
        assert boot_of(view) != boot
    assert sampler.violations == []


def test_container_restart_is_warmed_up_anew(
    api: Api, node: Node, create: Create, namespace: str
) -> None:
    """The kubelet leaves the condition of a gate alone when a container restarts."""
    view = create(warm_model("restarted", namespace))
    view.wait_ready()
    pod = view.engine_pod()
    address = pod["status"]["podIP"]
    watch = EndpointWatch(api, view)
    watch.wait_for(address, ready=True, timeout_s=30)
    boot = boot_of(view)
    with GateSampler(view) as sampler:
        kill(node.container_pid(pod["metadata"]["uid"], "engine"))
        watch.wait_for(address, ready=False, timeout_s=10)
        watch.wait_for(address, ready=True, timeout_s=120)
    assert sampler.violations == []
    assert boot_of(view) != boot
    assert container_status(view.engine_pod(), "engine")["restartCount"] == 1


def test_engine_killed_just_after_the_sidecar(
    api: Api, node: Node, create: Create, namespace: str
) -> None:
    """Nobody is left to close the gate; then the kubelet takes the pod out within its second."""
    view = create(warm_model("both", namespace))
    view.wait_ready()
    pod = view.engine_pod()
    uid, address = pod["metadata"]["uid"], pod["status"]["podIP"]
    watch = EndpointWatch(api, view)
    watch.wait_for(address, ready=True, timeout_s=30)
    boot, engine, sidecar = boot_of(view), node.engine_main(uid), node.container_pid(uid, "warmup")
    kill(sidecar)
    kill(engine)
    watch.wait_for(address, ready=False, timeout_s=10)
    watch.wait_for(address, ready=True, timeout_s=180)
    assert boot_of(view) != boot


def test_sidecar_restart_keeps_a_warm_boot(
    api: Api, node: Node, create: Create, namespace: str
) -> None:
    """A new sidecar finds the boot alive and warm, and does not play the rounds again."""
    view = create(warm_model("resumed", namespace))
    view.wait_ready()
    pod = view.engine_pod()
    uid, boot = pod["metadata"]["uid"], boot_of(view)
    engine = node.engine_main(uid)
    kill(node.container_pid(uid, "warmup"))
    wait_until(
        "the sidecar was started again",
        lambda: container_status(view.engine_pod(), "warmup").get("restartCount") == 1,
        timeout_s=60,
    )
    view.wait_ready()
    assert boot_of(view) == boot
    assert engine in children(node.container_pid(uid, "engine"))


def test_deleted_pod_leaves_the_endpoints_before_its_engine_ends(
    create: Create, api: Api, namespace: str
) -> None:
    view = create(with_engine(warm_model("scaled", namespace, replicas=2)))
    view.wait_ready()
    with Traffic(view.service_url(), "scaled", period_s=0.05) as traffic:
        wait_until("requests are answered", lambda: traffic.succeeded > 20, timeout_s=60)
        api.patch("WarmModel", "scaled", namespace, {"spec": {"replicas": 1}})
        wait_until("one pod is left", lambda: len(view.engine_pods()) == 1, timeout_s=120)
    assert traffic.failures == []


def boot_of(view: ModelView) -> str:
    """The boot that the pod's gate vouches for."""
    message = condition_of(view.engine_pod(), "warmpod.io/Warm").get("message", "")
    words = message.split()
    return words[1] if words[:1] == ["boot"] and "warm:" in words else ""
