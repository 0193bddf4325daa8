"""The simulator as a client sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest

from processes.simulator.asking import Start
from simulator.harness import Simulator
from support.waiting import wait_for


def client(simulator: Simulator, key: str = "none", seconds: float = 20) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{simulator.base_url}/v1", api_key=key, max_retries=0, timeout=seconds
    )


def complete(simulator: Simulator, **options: Any) -> Any:
    wanted: dict[str, Any] = {"model": "tiny", "prompt": "one two", "max_tokens": 4}
    return client(simulator).completions.create(**(wanted | options))


def get(simulator: Simulator, path: str) -> str:
    with urllib.request.urlopen(simulator.base_url + path, timeout=20) as answer:
        return str(answer.read().decode())


def sample(simulator: Simulator, series: str) -> float:
    """The value of one series of /metrics."""
    lines = get(simulator, "/metrics").splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(series)))


def post(simulator: Simulator, path: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(
        simulator.base_url + path,
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return bytes(answer.read())


def test_first_request_is_slow_and_later_ones_are_not(start_simulator: Start) -> None:
    simulator = start_simulator(first_seconds=0.5, cold_requests=2)
    times = []
    for _ in range(3):
        begun = time.monotonic()
        complete(simulator)
        times.append(time.monotonic() - begun)
    assert min(times[:2]) > 0.5
    late = simulator.log.read_text().count("kernel JIT compilation during inference")
    # Of three requests two were cold, each in the buckets "plain" and "sampling". How quick the
    # third was would tell of the machine.
    assert late == 2 * 2


def test_answers_the_official_client(simulator: Simulator) -> None:
    openai_client = client(simulator)
    assert [model.id for model in openai_client.models.list()] == ["tiny"]
    chat = openai_client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "hello"}],
        max_tokens=5,
        logprobs=True,
        n=2,
    )
    assert [choice.finish_reason for choice in chat.choices] == ["length", "length"]
    assert chat.usage is not None
    assert chat.usage.completion_tokens == 10
    assert chat.choices[0].logprobs is not None
    completion = complete(simulator, temperature=0)
    assert len(completion.choices[0].text.split()) == 4
    assert complete(simulator, temperature=0).choices[0].text == completion.choices[0].text
    assert complete(simulator, seed=7).choices[0].text != completion.choices[0].text


def test_streams_to_the_official_client(simulator: Simulator) -> None:
    chunks = list(
        client(simulator).chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "hello"}],
            max_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert len(text.split()) == 5
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    streamed = complete(simulator, stream=True)
    assert len([chunk for chunk in streamed if chunk.choices[0].text]) == 4


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("/v1/completions", {"prompt": [1, 2, 3]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ],
)
def test_stream_is_exact_server_sent_events(
    simulator: Simulator, path: str, prompt: dict[str, Any]
) -> None:
    body = post(simulator, path, {**prompt, "max_tokens": 2, "stream": True})
    events = body.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    for event in events[:-2]:
        assert event.startswith("data: {")
        json.loads(event.removeprefix("data: "))


def test_metrics_have_vllms_names(simulator: Simulator) -> None:
    labels = '{engine="0",model_name="tiny"}'
    before = sample(simulator, f"vllm:generation_tokens_total{labels}")
    complete(simulator)
    metrics = get(simulator, "/metrics")
    assert f"vllm:num_requests_running{labels} 0.0" in metrics
    assert f"vllm:num_requests_waiting{labels} 0.0" in metrics
    assert sample(simulator, f"vllm:generation_tokens_total{labels}") == before + 4
    assert f"vllm:time_to_first_token_seconds_count{labels}" in metrics
    assert json.loads(get(simulator, "/version")) == {"version": "0.32.0"}


def test_refuses_what_vllm_refuses(start_simulator: Start) -> None:
    simulator = start_simulator("--max-model-len=32", "--api-key", "secret")
    with pytest.raises(openai.AuthenticationError):
        client(simulator).models.list()
    authorised = client(simulator, key="secret")
    with pytest.raises(openai.NotFoundError, match=r"The model `other` does not exist\."):
        authorised.completions.create(model="other", prompt="x")
    with pytest.raises(openai.BadRequestError, match="maximum context length is 32"):
        authorised.completions.create(model="tiny", prompt=list(range(33)))
    with pytest.raises(openai.BadRequestError, match="greater than max_model_len=32"):
        authorised.completions.create(model="tiny", prompt="x", max_tokens=33)
    assert simulator.health() == 200


def test_death_of_the_engine_process_ends_the_server_late_and_with_zero(
    start_simulator: Start,
) -> None:
    simulator = start_simulator()
    core = simulator.core_pid()
    assert Path(f"/proc/{core}/comm").read_text() == "VLLM::EngineCor\n"
    assert Path(f"/proc/{core}/cmdline").read_bytes().startswith(b"VLLM::EngineCore\0")
    begun = time.monotonic()
    os.kill(core, signal.SIGKILL)
    wait_for(lambda: simulator.health() == 503)
    with pytest.raises(openai.InternalServerError):
        complete(simulator)
    assert simulator.process.wait(20) == 0
    assert time.monotonic() - begun > 4


def test_stop_signal_ends_a_server_at_once(start_simulator: Start) -> None:
    simulator = start_simulator()
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.process.wait(10) == 0


def test_first_stop_signal_during_the_start_is_ignored(start_simulator: Start) -> None:
    simulator = start_simulator(wait=False, load_seconds=3)
    wait_for(lambda: "Initializing a V1 LLM engine" in simulator.log.read_text())
    simulator.process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        simulator.process.wait(0.3)
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.process.wait(10) == 0


@pytest.mark.parametrize("fault", ["crash-at-start", "crash-after-load"])
def test_crash_while_starting_exits_with_one(start_simulator: Start, fault: str) -> None:
    simulator = start_simulator(wait=False, fault=fault)
    assert simulator.process.wait(20) == 1


def test_taken_port_exits_with_one(simulator: Simulator, start_simulator: Start) -> None:
    second = start_simulator(port=simulator.port, wait=False)
    assert second.process.wait(20) == 1
    assert "[Errno 98] Address already in use" in second.log.read_text()


def test_no_token_while_health_is_fine(start_simulator: Start) -> None:
    simulator = start_simulator(fault="no-token")
    with pytest.raises(openai.APITimeoutError):
        client(simulator, seconds=0.5).completions.create(model="tiny", prompt="x")
    assert simulator.health() == 200
    wait_for(
        lambda: (
            'num_requests_running{engine="0",model_name="tiny"} 0.0' in get(simulator, "/metrics")
        )
    )


def test_hang_after_some_requests(start_simulator: Start) -> None:
    simulator = start_simulator(fault="hang-after=1", first_seconds=0)
    complete(simulator)
    with pytest.raises(openai.APITimeoutError):
        client(simulator, seconds=0.5).completions.create(model="tiny", prompt="x")


def test_die_after_some_requests(start_simulator: Start) -> None:
    simulator = start_simulator(fault="die-after=1", first_seconds=0)
    complete(simulator)
    with pytest.raises(openai.InternalServerError, match="EngineCore encountered an issue"):
        complete(simulator)
    assert simulator.health() == 503


def test_errors_and_empty_answers(start_simulator: Start) -> None:
    with pytest.raises(openai.InternalServerError, match="simulated failure"):
        complete(start_simulator(fault="error-500"))
    empty = complete(start_simulator(fault="empty-content", first_seconds=0))
    assert empty.choices[0].text == ""
    assert empty.usage.completion_tokens == 4


def test_unknown_fault_names_the_choices(start_simulator: Start) -> None:
    simulator = start_simulator(wait=False, fault="no-such")
    assert simulator.process.wait(20) == 1
    assert "SIM_FAULT: 'no-such' is not one of: none, crash-at-start" in simulator.log.read_text()
