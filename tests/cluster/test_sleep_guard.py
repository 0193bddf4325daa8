"""What only a pod's own sidecar may do to its engine, tried from another pod."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.test_token import execute
from support.api import JsonObject
from support.models import GATE, ModelView, condition_of, warm_model
from warmpod.launcher.guard import DEV_PATHS
from warmpod.protocol import WARMUP_PORT

Create = Callable[[JsonObject], ModelView]

# Runs in the sidecar of another model: what it prints is {"METHOD URL": status}.
ASK = """
import json, sys, urllib.error, urllib.request
def status(method, url, headers):
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code
token = open("/var/run/secrets/kubernetes.io/serviceaccount/token").read()
headers = {"Authorization": "Bearer " + token}
print(json.dumps({f"{m} {u}": status(m, u, headers) for m, u in json.loads(sys.argv[1])}))
"""


@pytest.fixture
def sleepy(create: Create, namespace: str) -> ModelView:
    standby = {"replicas": 0, "state": "Sleeping"}
    view = create(warm_model("sleepy", namespace, standby=standby))
    view.wait_ready()
    return view


@pytest.fixture
def other(create: Create, namespace: str) -> ModelView:
    view = create(warm_model("other", namespace))
    view.wait_ready()
    return view


def test_dev_endpoints_are_closed_to_other_pods(
    kubeconfig: Path, sleepy: ModelView, other: ModelView, namespace: str
) -> None:
    address = sleepy.engine_pod()["status"]["podIP"]
    engine = f"http://{address}:8000"
    dev = [[method, engine + path] for path in sorted(DEV_PATHS) for method in ("GET", "POST")]
    found = ask(kubeconfig, namespace, other, [*dev, ["GET", f"{engine}/v1/models"]])
    assert found.pop(f"GET {engine}/v1/models") == 200
    assert set(found.values()) == {403}
    assert condition_of(sleepy.engine_pod(), GATE)["reason"] == "Warm"


def test_orders_want_more_than_a_token_of_some_pod(
    kubeconfig: Path, sleepy: ModelView, other: ModelView, namespace: str
) -> None:
    """Each pod's token is one of the cluster, but of another account and audience."""
    sidecar = f"http://{sleepy.engine_pod()['status']['podIP']}:{WARMUP_PORT}"
    orders = [["POST", f"{sidecar}/v1/{name}"] for name in ("sleep", "wake", "warm")]
    for asking in (other, sleepy):
        found = ask(kubeconfig, namespace, asking, [*orders, ["GET", f"{sidecar}/v1/load"]])
        assert set(found.values()) == {401}
    assert condition_of(sleepy.engine_pod(), GATE)["reason"] == "Warm"


def ask(
    kubeconfig: Path, namespace: str, asking: ModelView, requests: list[list[str]]
) -> dict[str, int]:
    pod = asking.engine_pod()["metadata"]["name"]
    command = ("python3", "-c", ASK, json.dumps(requests))
    result = execute(kubeconfig, namespace, pod, "warmup", *command)
    assert result.returncode == 0, result.stderr
    found: dict[str, int] = json.loads(result.stdout)
    return found
