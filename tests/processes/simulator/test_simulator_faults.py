"""Each fault of a running engine, as a client sees it. Failed starts: test_simulator_life.py."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_sim.faults import Fault, parse_fault
from engine_sim.hardware import Hardware
from engine_sim.knobs import Knobs, read_knobs

from processes.simulator.asking import Start, chat, complete, get, metric, post
from simulator.harness import Simulator
from support.waiting import wait_for

LATE = "Triton kernel JIT compilation during inference"


def no_chat(simulator: Simulator) -> None:
    body = {"messages": [{"role": "user", "content": "x"}]}
    assert post(simulator, "/v1/chat/completions", body).status == 404
    assert "/v1/chat/completions" not in get(simulator, "/openapi.json").json["paths"]
    assert complete(simulator)["choices"]


def no_chat_template(simulator: Simulator) -> None:
    body = {"messages": [{"role": "user", "content": "x"}]}
    assert post(simulator, "/v1/chat/completions", body).status == 400
    assert complete(simulator)["choices"]


def one_token(simulator: Simulator) -> None:
    body = complete(simulator, max_tokens=10)
    assert body["usage"]["completion_tokens"] == 1
    assert body["choices"][0]["finish_reason"] == "length"


def error_500(simulator: Simulator) -> None:
    answer = post(simulator, "/v1/completions", {"prompt": "x"})
    assert (answer.status, answer.error) == (500, "simulated failure")


def late_compile(simulator: Simulator) -> None:
    kernels = set()
    for number in range(1, 6):
        complete(simulator)
        found = re.findall(rf"{LATE}: (\S+)\.", simulator.log.read_text())
        kernels = set(found)
        # One of its own, and at the first request that of the cold bucket besides.
        assert len(found) == len(kernels) == number + 1


def late_compile_twice(simulator: Simulator) -> None:
    for _ in range(5):
        complete(simulator)
    assert simulator.log.read_text().count(LATE) == 1 + 2


def dies_in_round_2(simulator: Simulator) -> None:
    complete(simulator)
    complete(simulator, "x " * 100)  # other kernels: still the first round
    assert post(simulator, "/v1/completions", {"prompt": "x", "temperature": 0}).status == 500
    wait_for(lambda: simulator.health() == 503)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("no-chat", no_chat),
        ("no-chat-template", no_chat_template),
        ("one-token", one_token),
        ("error-500", error_500),
        ("late-compile", late_compile),
        ("late-compile=2", late_compile_twice),
        ("dies-in-round-2", dies_in_round_2),
    ],
)
def test_fault(start_simulator: Start, fault: str, check: Callable[[Simulator], None]) -> None:
    check(start_simulator(fault=fault, first_seconds=0))


def test_wrong_text(start_simulator: Start, simulator: Simulator) -> None:
    wrong = start_simulator(fault="wrong-text", first_seconds=0)
    assert complete(wrong)["choices"] != complete(simulator)["choices"]


def test_wrong_text_after_wake(start_simulator: Start, simulator: Simulator) -> None:
    wrong = start_simulator(
        "--enable-sleep-mode",
        env={"VLLM_SERVER_DEV_MODE": "1"},
        fault="wrong-text-after-wake",
        first_seconds=0,
    )
    right = complete(simulator)["choices"]
    assert complete(wrong)["choices"] == right
    post(wrong, "/sleep")
    post(wrong, "/wake_up")
    assert complete(wrong)["choices"] != right


def test_reasoning_model_without_content(start_simulator: Start) -> None:
    simulator = start_simulator("--reasoning-parser=qwen3", fault="empty-content", first_seconds=0)
    message = chat(simulator, max_tokens=100)["choices"][0]["message"]
    assert message["reasoning"]
    assert message["content"] is None


def test_cache_grows_with_each_request(start_simulator: Start, tmp_path: Path) -> None:
    simulator = start_simulator(
        fault="cache-grows", env={"TRITON_CACHE_DIR": str(tmp_path / "t")}, first_seconds=0
    )
    for number in range(1, 4):
        complete(simulator)
        assert len(list((tmp_path / "t").glob("late/*"))) == number


def test_first_token_waits_for_others_under_load_while_tokens_flow(start_simulator: Start) -> None:
    simulator = start_simulator(fault="slow-under-load=3600000", first_seconds=0)
    user = threading.Thread(target=lambda: complete(simulator, max_tokens=2000, ignore_eos=True))
    user.start()
    wait_for(lambda: metric(simulator, "vllm:generation_tokens_total") > 0)

    def ask() -> None:
        with contextlib.suppress(OSError):
            complete(simulator)

    canary = threading.Thread(target=ask, daemon=True)
    canary.start()
    wait_for(lambda: metric(simulator, "vllm:num_requests_running") == 2)
    before = metric(simulator, "vllm:generation_tokens_total")
    wait_for(lambda: metric(simulator, "vllm:generation_tokens_total") > before)
    assert canary.is_alive()
    user.join()


def latencies(fault: str, count: int) -> list[float]:
    """Seconds to the first token of so many warm requests of one kind."""
    hardware = Hardware(Knobs(fault=parse_fault(fault)))
    return [hardware.prefill(number, -1, 16, 0) for number in range(1, count + 1)]


def test_latency_that_walks_never_settles() -> None:
    walk = latencies("never-converges", 400)
    for begin in range(0, 400, 40):
        part = walk[begin : begin + 40]
        assert max(part) > 1.5 * min(part)


def test_latency_that_falls_never_stops_falling() -> None:
    fall = latencies("falls-for-ever", 400)
    assert all(later < earlier for earlier, later in itertools.pairwise(fall))
    assert fall[399] < fall[199] * 0.6


def test_healthy_latency_is_the_same_each_time() -> None:
    assert len(set(latencies("none", 10))) == 1


@pytest.mark.parametrize("text", ["no-such", "die-after", "die-after=x", "no-token=1"])
def test_unknown_fault_names_the_choices(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not one of: none, .*die-after=N.*late-compile\[=N\]"):
        parse_fault(text)


def test_fault_with_a_count() -> None:
    assert parse_fault("die-after=3") == Fault("die-after", 3)
    assert parse_fault("late-compile=3").count < parse_fault("late-compile").count


@pytest.mark.parametrize(
    "environment", [{"SIM_PAUSED": "wait"}, {"SIM_KERNEL_CLASSES": "x"}, {"SIM_LOAD_SECONDS": "x"}]
)
def test_knob_with_a_value_that_it_does_not_take(environment: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(environment))):
        read_knobs(environment)
