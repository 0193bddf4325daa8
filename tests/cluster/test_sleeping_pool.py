"""A pool whose pods sleep: they wake up to serve, and are left out when that goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cluster.test_token import execute
from support.api import Api, JsonObject
from support.models import GATE, ModelView, condition_of, knobs, warm_model
from support.promotion import scale, staying
from support.traffic import Traffic
from support.waiting import wait_until
from warmpod.protocol import DEV_KEY_FILE, DEV_KEY_HEADER, RUN_MOUNT

Create = Callable[[JsonObject], ModelView]

# A pod falls asleep once its Deployment is settled and it has been idle for a while.
ASLEEP_S = 180
# Requests while pods come and go; the wake-up of the simulator takes no time.
SLOW_S = 5.0

SLEEP = f"""
import urllib.request
key = open("{RUN_MOUNT}/{DEV_KEY_FILE}").read().strip()
url = "http://127.0.0.1:8000/sleep?level=1"
urllib.request.urlopen(urllib.request.Request(url, headers={{"{DEV_KEY_HEADER}": key}}, data=b""))
"""


def test_a_sleeping_pod_wakes_up_to_serve_and_another_one_falls_asleep(
    api: Api, create: Create, namespace: str
) -> None:
    view = sleeping_pool(create, namespace)
    (spare,) = staying(view, "standby")
    with Traffic(view.service_url(), view.name, timeout_s=SLOW_S) as traffic:
        scale(api, view, 2)
        wait_until("two serve", lambda: len(view.ready_addresses()) == 2, timeout_s=60)
        assert spare["status"]["podIP"] in view.ready_addresses()
        wait_until("another one sleeps", lambda: asleep(view), timeout_s=ASLEEP_S)
        scale(api, view, 1)
        wait_until("one serves", lambda: len(view.ready_addresses()) == 1, timeout_s=60)
        wait_until("one is left, and sleeps", lambda: asleep(view), timeout_s=ASLEEP_S)
    assert traffic.failures == []
    promoted = [
        pod["metadata"]["annotations"]["warmpod.io/promoted-from"]
        for pod in view.engine_pods()
        if "warmpod.io/promoted-from" in pod["metadata"].get("annotations", {})
    ]
    assert set(promoted) <= {"Sleeping"}


def test_wrong_text_after_a_wake_up_is_not_let_in(api: Api, create: Create, namespace: str) -> None:
    view = sleeping_pool(create, namespace, fault="wrong-text-after-wake")
    stays_out(api, view, "AnswerChanged")


def test_a_wake_up_that_hangs_is_not_waited_for(api: Api, create: Create, namespace: str) -> None:
    view = sleeping_pool(create, namespace, fault="wake-hangs")
    stays_out(api, view, "WakeFailed")


def test_a_serving_engine_that_somebody_puts_to_sleep_is_woken_up(
    kubeconfig: Path, api: Api, create: Create, namespace: str
) -> None:
    """By somebody in the pod itself: nobody else can."""
    view = sleeping_pool(create, namespace)
    (serving,) = staying(view, "serving")
    name, opened = serving["metadata"]["name"], condition_of(serving, GATE)["lastTransitionTime"]
    done = execute(kubeconfig, namespace, name, "engine", "python3", "-c", SLEEP)
    assert done.returncode == 0, done.stderr

    def opened_again() -> bool:
        gate = condition_of(api.get("Pod", name, namespace), GATE)
        return gate["status"] == "True" and gate["lastTransitionTime"] != opened

    wait_until("its gate was closed, and is open again", opened_again, timeout_s=60)
    wait_until("it serves", lambda: len(view.ready_addresses()) == 1, timeout_s=60)


def sleeping_pool(create: Create, namespace: str, fault: str = "") -> ModelView:
    model = warm_model("sleeping", namespace, standby={"replicas": 1, "state": "Sleeping"})
    if fault:
        model["spec"]["engine"]["env"] += knobs(fault=fault)
    view = create(model)
    view.wait_ready()
    wait_until("one sleeps", lambda: asleep(view), timeout_s=ASLEEP_S, describe=view.conditions)
    return view


def asleep(view: ModelView) -> bool:
    """Whether one pod is held back, and it sleeps."""
    held = staying(view, "standby")
    return len(held) == 1 and condition_of(held[0], GATE).get("reason") == "Asleep"


def stays_out(api: Api, view: ModelView, reason: str) -> None:
    """The sleeping pod is wanted and does not serve; the one that serves goes on."""
    (spare,), before = staying(view, "standby"), view.ready_addresses()
    with Traffic(view.service_url(), view.name, timeout_s=SLOW_S) as traffic:
        scale(api, view, 2)

        def told() -> bool:
            pod = api.get("Pod", spare["metadata"]["name"], view.namespace)
            return condition_of(pod, GATE).get("reason") == reason

        wait_until(f"it says {reason}", told, timeout_s=120, describe=view.conditions)
        assert spare["status"]["podIP"] not in view.ready_addresses()
        assert before <= view.ready_addresses()
    assert traffic.failures == []
