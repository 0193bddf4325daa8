"""Sleep, pause, adapters: what changes an engine while it runs."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from processes.simulator.asking import Start, complete, get, metric, post
from simulator.harness import Simulator
from support.waiting import wait_for

DEV = {"VLLM_SERVER_DEV_MODE": "1"}


@pytest.fixture
def sleeper(start_simulator: Start) -> Simulator:
    return start_simulator("--enable-sleep-mode", env=DEV, first_seconds=0, token_seconds=0.02)


class Asking:
    """A request in a thread."""

    def __init__(self, simulator: Simulator, **options: Any) -> None:
        self._simulator = simulator
        self._options = options
        self.body: Any = None
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        with contextlib.suppress(OSError):
            self.body = complete(self._simulator, **self._options)

    def wait(self) -> Any:
        self._thread.join(20)
        return self.body


def sleep_state(simulator: Simulator) -> dict[str, float]:
    states = ("awake", "weights_offloaded", "discard_all")
    name = "vllm:engine_sleep_state"
    return {state: metric(simulator, name, f'sleep_state="{state}"') for state in states}


def running(simulator: Simulator) -> float:
    return metric(simulator, "vllm:num_requests_running")


@pytest.mark.parametrize(("level", "state"), [(1, "weights_offloaded"), (2, "discard_all")])
def test_requests_hang_while_the_engine_sleeps(sleeper: Simulator, level: int, state: str) -> None:
    slept = post(sleeper, f"/sleep?level={level}")
    assert (slept.status, slept.json) == (200, {"status": "sleeping", "level": level})
    assert get(sleeper, "/is_sleeping").json == {"is_sleeping": True}
    assert sleep_state(sleeper) == {"awake": 0, "weights_offloaded": 0, "discard_all": 0} | {
        state: 1
    }
    assert sleeper.health() == 200
    asking = Asking(sleeper)
    wait_for(lambda: metric(sleeper, "vllm:num_requests_waiting") == 1)
    assert post(sleeper, "/wake_up").json == {"status": "awake", "tags": None}
    assert asking.wait()["choices"]
    assert sleep_state(sleeper)["awake"] == 1


def test_part_by_part_wake_up_ends_with_the_last_part(sleeper: Simulator) -> None:
    post(sleeper, "/sleep?level=1")
    assert post(sleeper, "/wake_up?tags=weights").json["status"] == "sleeping"
    assert get(sleeper, "/is_sleeping").json == {"is_sleeping": True}
    assert post(sleeper, "/wake_up?tags=kv_cache").json["status"] == "awake"


def test_level_2_answers_garbage_until_the_weights_were_loaded_again(sleeper: Simulator) -> None:
    right = complete(sleeper)["choices"]
    post(sleeper, "/sleep?level=2")
    post(sleeper, "/wake_up")
    assert complete(sleeper)["choices"] != right
    assert post(sleeper, "/collective_rpc", {"method": "reload_weights"}).status == 200
    assert complete(sleeper)["choices"] == right


@pytest.mark.parametrize(
    ("path", "mode", "tokens", "reason"),
    [
        ("/pause", "abort", range(200), "abort"),
        ("/pause", "wait", [50], "length"),
        ("/sleep", "abort", range(200), "abort"),
    ],
)
def test_request_in_flight(
    sleeper: Simulator, path: str, mode: str, tokens: Any, reason: str
) -> None:
    asking = Asking(sleeper, max_tokens=50 if mode == "wait" else 500, ignore_eos=True)
    wait_for(lambda: running(sleeper) == 1)
    assert post(sleeper, f"{path}?mode={mode}").status == 200
    body = asking.wait()
    assert body["choices"][0]["finish_reason"] == reason
    assert body["usage"]["completion_tokens"] in tokens
    assert get(sleeper, "/is_paused").json == {"is_paused": True}


def test_kept_request_goes_on_after_the_pause(sleeper: Simulator) -> None:
    asking = Asking(sleeper, max_tokens=50, ignore_eos=True)
    wait_for(lambda: running(sleeper) == 1)
    post(sleeper, "/pause?mode=keep")
    assert running(sleeper) == 1
    assert post(sleeper, "/resume").json == {"status": "resumed"}
    assert asking.wait()["usage"]["completion_tokens"] == 50


def test_prefixes_are_forgotten(sleeper: Simulator) -> None:
    prompt = list(range(100, 140))
    complete(sleeper, prompt)
    assert post(sleeper, "/reset_prefix_cache").json == {"success": True}
    complete(sleeper, prompt)
    assert metric(sleeper, "vllm:prefix_cache_hits_total") == 0


def test_paused_engine_of_0_33_refuses(start_simulator: Start) -> None:
    simulator = start_simulator("--enable-sleep-mode", env=DEV, paused="503")
    post(simulator, "/sleep")
    answer = post(simulator, "/v1/completions", {"prompt": "x"})
    assert (answer.status, answer.error) == (503, "Engine is paused.")


@pytest.mark.parametrize(
    ("query", "message"), [("level=3", "less than or equal to 2"), ("mode=now", "'abort', 'wait'")]
)
def test_sleep_refuses(sleeper: Simulator, query: str, message: str) -> None:
    answer = post(sleeper, f"/sleep?{query}")
    assert answer.status == 400
    assert message in answer.error


def test_sleep_needs_its_switches(start_simulator: Start, simulator: Simulator) -> None:
    assert post(simulator, "/sleep").status == 404
    assert get(simulator, "/is_sleeping").status == 404
    without_flag = start_simulator(env=DEV)
    assert post(without_flag, "/sleep").status == 500
    assert get(without_flag, "/is_sleeping").json == {"is_sleeping": False}


def test_wake_faults(start_simulator: Start) -> None:
    failing = start_simulator("--enable-sleep-mode", env=DEV, fault="wake-fails")
    post(failing, "/sleep")
    assert post(failing, "/wake_up").status == 500
    assert get(failing, "/is_sleeping").json == {"is_sleeping": True}


def test_wake_that_hangs(start_simulator: Start) -> None:
    hanging = start_simulator("--enable-sleep-mode", env=DEV, fault="wake-hangs")
    post(hanging, "/sleep")

    def wake() -> None:
        with contextlib.suppress(OSError):
            post(hanging, "/wake_up")

    waking = threading.Thread(target=wake, daemon=True)
    waking.start()
    wait_for(lambda: "wake up the engine" in hanging.log.read_text())
    assert get(hanging, "/is_sleeping").json == {"is_sleeping": True}
    assert waking.is_alive()


@pytest.mark.parametrize(("fault", "freed"), [("none", "14.00"), ("memory-not-freed", "0.20")])
def test_memory_that_is_freed_is_told_in_the_log(
    start_simulator: Start, fault: str, freed: str
) -> None:
    simulator = start_simulator("--enable-sleep-mode", env=DEV, fault=fault)
    post(simulator, "/sleep")
    wait_for(lambda: f"Sleep mode freed {freed} GiB memory, " in simulator.log.read_text())


MIDDLEWARE = """
class Door:
    def __init__(self, app):
        self.app = app
    async def __call__(self, scope, receive, send):
        if scope["path"] != "/version" or (b"x-key", b"1") in scope["headers"]:
            return await self.app(scope, receive, send)
        body = await receive()
        headers = [(b"content-type", b"text/plain"), (b"x-door", b"shut")]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": b"no"})
"""


def test_middleware_is_really_loaded(start_simulator: Start, tmp_path: Path) -> None:
    (tmp_path / "doors.py").write_text(MIDDLEWARE)
    path = {"PYTHONPATH": str(tmp_path)}
    simulator = start_simulator("--middleware", "doors.Door", env=path)
    assert get(simulator, "/v1/models").status == 200
    refused = get(simulator, "/version")
    assert (refused.status, refused.body) == (403, b"no")
    assert get(simulator, "/version", {"X-Key": "1"}).status == 200
    assert '"GET /version HTTP/1.1" 403' in simulator.log.read_text()


def test_adapters_come_and_go(start_simulator: Start, tmp_path: Path) -> None:
    simulator = start_simulator(
        "--enable-lora",
        "--max-loras=2",
        env={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"},
        first_seconds=0,
    )
    wanted = {"lora_name": "german", "lora_path": str(tmp_path)}
    loaded = post(simulator, "/v1/load_lora_adapter", wanted)
    assert loaded.text == "Success: LoRA adapter 'german' added successfully."
    card = get(simulator, "/v1/models").json["data"][1]
    assert (card["id"], card["root"], card["parent"]) == ("german", str(tmp_path), "tiny")
    assert complete(simulator, model="german")["model"] == "german"
    assert "adapter-german" in simulator.log.read_text()
    assert 'max_lora="2"' in get(simulator, "/metrics").text
    again = post(simulator, "/v1/load_lora_adapter", wanted)
    assert (again.status, again.json["error"]["type"]) == (400, "InvalidUserInput")
    assert post(simulator, "/v1/load_lora_adapter", wanted | {"load_inplace": True}).status == 200
    assert post(simulator, "/v1/unload_lora_adapter", {"lora_name": "german"}).status == 200
    assert post(simulator, "/v1/unload_lora_adapter", {"lora_name": "german"}).status == 404
    assert post(simulator, "/v1/completions", {"model": "german", "prompt": "x"}).status == 404


def test_adapter_that_is_not_there(start_simulator: Start) -> None:
    simulator = start_simulator("--enable-lora", env={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"})
    body = {"lora_name": "german", "lora_path": "/no/such"}
    answer = post(simulator, "/v1/load_lora_adapter", body)
    assert (answer.status, answer.json["error"]["type"]) == (404, "NotFoundError")
    ended = start_simulator("--enable-lora", "--lora-modules=german=/no/such", wait=False)
    assert ended.process.wait(20) == 1


def test_adapters_cannot_be_changed_without_the_switch(simulator: Simulator) -> None:
    assert post(simulator, "/v1/load_lora_adapter", {}).status == 404
