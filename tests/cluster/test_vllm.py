"""The main path on the real engine: vLLM on the CPU with a small Llama."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from cluster.test_gate import boot_of
from cluster.test_token import execute
from support.api import Api, JsonObject
from support.endpoints import EndpointWatch, GateSampler
from support.models import ModelView, vllm_engine, warm_model
from support.namespaces import temporary_namespace
from support.node import Node, kill
from support.traffic import Traffic
from support.waiting import wait_until
from warmpod.launcher.guard import DEV_PATHS

pytestmark = [pytest.mark.vllm, pytest.mark.alone]

START_LIMIT_S = 600  # an idle machine takes one minute
#: vLLM itself notices the death of its core after that long at the earliest.
OWN_WATCHDOG_S = 4

# In the engine's container: what VLLM_SERVER_DEV_MODE=1 would add to the API, in the last line.
DEVELOPMENT_ROUTES = """
import json
from fastapi import FastAPI
from vllm.entrypoints.serve import register_vllm_dev_api_routers
app = FastAPI()
register_vllm_dev_api_routers(app)
print(json.dumps(sorted(app.openapi()["paths"])))
"""


@pytest.fixture(scope="module")
def vllm(api: Api) -> Iterator[ModelView]:
    """One real engine for all tests of this module, since its start is long."""
    warmup = {"stallSeconds": 300}
    with temporary_namespace(api, "test-vllm-") as namespace:
        api.apply(warm_model("llama", namespace, engine=vllm_engine(), warmup=warmup))
        view = ModelView(api, "llama", namespace)
        with GateSampler(view) as sampler:
            view.wait_ready(timeout_s=START_LIMIT_S)
        assert sampler.violations == []
        yield view


def test_official_client_gets_an_answer(vllm: ModelView) -> None:
    client = OpenAI(base_url=f"{vllm.service_url()}/v1", api_key="none")
    assert [model.id for model in client.models.list()] == ["llama"]
    answer = client.chat.completions.create(
        model="llama", messages=[{"role": "user", "content": "Hello"}], max_tokens=8
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_start_up_timeline(vllm: ModelView) -> None:
    def recorded() -> list[JsonObject]:
        return list(vllm.get()["status"].get("lastStartups", []))

    (startup,) = wait_until("a start-up is recorded", recorded, timeout_s=30)
    assert startup["pod"] == vllm.engine_pod()["metadata"]["name"]


def test_the_guard_knows_every_endpoint_of_vllms_development_mode(
    kubeconfig: Path, vllm: ModelView
) -> None:
    pod = vllm.engine_pod()["metadata"]["name"]
    command = ("python3", "-c", DEVELOPMENT_ROUTES)
    result = execute(kubeconfig, vllm.namespace, pod, "engine", *command)
    assert result.returncode == 0, result.stderr
    paths = set(json.loads(result.stdout.splitlines()[-1]))
    assert "/sleep" in paths
    assert paths <= DEV_PATHS


def test_no_request_fails_once_ready(vllm: ModelView) -> None:
    with Traffic(vllm.service_url(), "llama") as traffic:
        wait_until("fifty requests", lambda: traffic.succeeded >= 50, timeout_s=120)
    assert traffic.failures == []


@pytest.mark.parametrize("victim", ["main", "core"])
def test_killed_vllm_is_out_at_once_and_back_after_its_own_warm_up(
    api: Api, node: Node, vllm: ModelView, victim: str
) -> None:
    pod = vllm.engine_pod()
    uid, address, boot = pod["metadata"]["uid"], pod["status"]["podIP"], boot_of(vllm)
    watch = EndpointWatch(api, vllm)
    watch.wait_for(address, ready=True, timeout_s=30)
    with GateSampler(vllm) as sampler:
        pid = node.engine_main(uid) if victim == "main" else node.engine_core(uid)
        killed = time.monotonic()
        kill(pid)
        assert watch.wait_for(address, ready=False, timeout_s=10) - killed < OWN_WATCHDOG_S
        watch.wait_for(address, ready=True, timeout_s=START_LIMIT_S)
    assert sampler.violations == []
    assert boot_of(vllm) != boot
    assert vllm.engine_pod()["metadata"]["uid"] == uid
