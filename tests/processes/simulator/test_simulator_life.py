"""How a simulated engine starts and ends: phases, caches, drain."""

from __future__ import annotations

import os
import re
import signal
import ssl
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from processes.simulator.asking import Start, complete, get, metric, post
from simulator.harness import Simulator
from support.certificates import make_certificates
from support.waiting import wait_for

PHASES = [
    r"vLLM server version 0\.32\.0, serving model /models/tiny$",
    r"non-default args: ",
    r"Resolved architecture: LlamaForCausalLM",
    r"Using max model len 2048",
    r"Initializing a V1 LLM engine \(v0\.32\.0\) with config: ",
    r"world_size=1 rank=0 local_rank=0 ",
    r"Starting to load model /models/tiny\.\.\.",
    r"Loading weights took [\d.]+ seconds",
    r"Model loading took [\d.]+ GiB memory and [\d.]+ seconds",
    r"Using cache directory: \S+ for vLLM's torch\.compile",
    r"Dynamo bytecode transform time: [\d.]+ s",
    r"saved AOT compiled function to \S+",
    r"\[backbone\] torch\.compile took [\d.]+ s in total",
    r"Initial profiling/warmup run took [\d.]+ s",
    r"GPU KV cache size: 65,536 tokens, Maximum concurrency for 2,048 tokens per request: 32\.00x",
    r"Graph capturing finished in \d+ secs, took 0\.10 GiB",
    r"Kernel JIT monitor activated; ",
    r"init engine \(profile, create kv cache, warmup model\) took [\d.]+ s",
    r"Supported tasks: \('generate',\)",
    r"Starting vLLM server on http://0\.0\.0\.0:\d+",
    r"Available routes are:",
    r"INFO:     Application startup complete\.",
]


def place(pattern: str, log: str) -> int:
    found = re.search(pattern, log, re.MULTILINE)
    assert found, pattern
    return found.start()


def test_start_up_lines_come_in_vllms_order(simulator: Simulator) -> None:
    log = simulator.log.read_text()
    places = [place(pattern, log) for pattern in PHASES]
    assert places == sorted(places)


def test_eager_engine_has_no_compilation_no_graphs_and_no_monitor(start_simulator: Start) -> None:
    simulator = start_simulator("--enforce-eager")
    complete(simulator)
    log = simulator.log.read_text()
    for text in ("torch.compile", "Graph capturing", "JIT monitor", "kernel JIT compilation"):
        assert text not in log


def test_second_boot_hits_the_compile_cache(start_simulator: Start, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    env = {"VLLM_CACHE_ROOT": str(root)}
    first = start_simulator(env=env).log.read_text()
    artefact = next(root.glob("torch_compile_cache/torch_aot_compile/*/rank_0_0/model"))
    assert f"saved AOT compiled function to {artefact}" in first
    again = start_simulator(env=env).log.read_text()
    assert f"Directly load AOT compilation from path {artefact}" in again
    assert "Dynamo bytecode transform time" not in again


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (["--max-num-seqs=3"], {}),
        (["--max-model-len=1024"], {}),
        ([], {"VLLM_IMAGE_TAG": "other"}),
    ],
)
def test_other_arguments_miss_the_compile_cache(
    start_simulator: Start, tmp_path: Path, arguments: list[str], env: dict[str, str]
) -> None:
    root = {"VLLM_CACHE_ROOT": str(tmp_path / "cache")}
    start_simulator(env=root)
    other = start_simulator(*arguments, env=root | env)
    assert "Directly load AOT compilation" not in other.log.read_text()


def test_corrupt_compile_cache_is_compiled_again(start_simulator: Start, tmp_path: Path) -> None:
    env = {"VLLM_CACHE_ROOT": str(tmp_path / "cache")}
    start_simulator(env=env)
    artefact = next((tmp_path / "cache").glob("**/model"))
    artefact.write_text("rubbish")
    log = start_simulator(env=env).log.read_text()
    assert f"Compiling model again due to a load failure from {artefact}, reason: Compile" in log
    assert artefact.read_text().startswith("simulated AOT artefact")


@pytest.mark.parametrize(("kept", "late"), [(1, 0), (0, 1)])
def test_kept_kernels_save_first_requests_when_the_knob_says_so(
    start_simulator: Start, tmp_path: Path, kept: int, late: int
) -> None:
    env = {"TRITON_CACHE_DIR": str(tmp_path / "triton")}
    late_line = "Triton kernel JIT compilation during inference"
    first = start_simulator(env=env)
    complete(first)
    assert first.log.read_text().count(late_line) == 1
    assert len(list((tmp_path / "triton").glob("*/kernel.json"))) == 1
    second = start_simulator(env=env, kernel_cache=kept)
    complete(second)
    assert second.log.read_text().count(late_line) == late


def test_silent_compiler_is_a_child_process_that_a_kept_workspace_saves(
    start_simulator: Start, tmp_path: Path
) -> None:
    env = {"FLASHINFER_WORKSPACE_BASE": str(tmp_path / "fi")}
    simulator = start_simulator(wait=False, env=env, nvcc_seconds=1)

    def compilers() -> list[str]:
        core = simulator.core_pid()
        children = Path(f"/proc/{core}/task/{core}/children").read_text().split()
        return [Path(f"/proc/{child}/comm").read_text().strip() for child in children]

    wait_for(lambda: "Initializing a V1 LLM engine" in simulator.log.read_text())
    wait_for(lambda: compilers() == ["nvcc"])
    wait_for(lambda: simulator.health() == 200)
    assert list((tmp_path / "fi").glob("**/attention.so"))
    # It would take an hour, had the first boot left nothing.
    start_simulator(env=env, nvcc_seconds=3600)


@pytest.mark.parametrize(
    ("fault", "code", "cause", "before", "after"),
    [
        ("crash-at-start", 1, "simulated crash at start", "", "Resolved architecture"),
        ("missing-token", 1, "GatedRepoError: 401 Client Error", "", "Resolved architecture"),
        ("unsupported-argument", 2, "error: unrecognized arguments:", "", "Resolved arch"),
        ("driver-mismatch", 1, "NVIDIA driver on your system is too old", "", "to load model"),
        ("gpu-busy", 1, "less than desired GPU memory utilization", "", "to load model"),
        ("oom-in-weights", 1, "CUDA out of memory", "to load model", "Loading weights took"),
        ("kv-cache-too-small", 1, "No available memory for the cache", "Loading weights", "KV c"),
        ("oom-in-graphs", 1, "CUDA out of memory", "KV cache size", "Graph capturing finished"),
        ("crash-after-load", 1, "EngineCore failed to start.", "init engine", "Starting vLLM"),
    ],
)
def test_start_that_fails(
    start_simulator: Start, fault: str, code: int, cause: str, before: str, after: str
) -> None:
    simulator = start_simulator(wait=False, fault=fault)
    assert simulator.process.wait(20) == code
    log = simulator.log.read_text()
    assert before in log[: log.index(cause)]
    assert after not in log


def test_start_that_never_ends(start_simulator: Start) -> None:
    simulator = start_simulator(wait=False, fault="hang-at-start")
    wait_for(lambda: "Starting to load model" in simulator.log.read_text())
    core = simulator.core_pid()
    assert simulator.health() == 0
    simulator.stop()
    wait_for(lambda: not _lives(core))


def _lives(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_drain_ends_what_runs_and_refuses_what_comes(start_simulator: Start) -> None:
    simulator = start_simulator("--shutdown-timeout=20", first_seconds=0, token_seconds=0.02)
    bodies: list[Any] = []
    client = threading.Thread(
        target=lambda: bodies.append(complete(simulator, max_tokens=60, ignore_eos=True))
    )
    client.start()
    wait_for(lambda: metric(simulator, "vllm:num_requests_running") == 1)
    simulator.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "mode=drain" in simulator.log.read_text())
    late = post(simulator, "/v1/completions", {"prompt": "x"})
    assert (late.status, late.error) == (500, "cannot schedule new futures after shutdown")
    assert get(simulator, "/health").status == 200
    client.join()
    assert bodies[0]["usage"]["completion_tokens"] == 60
    assert simulator.process.wait(10) == 0


def test_without_a_timeout_requests_are_cut(start_simulator: Start) -> None:
    simulator = start_simulator(first_seconds=0, token_seconds=1)
    failures: list[OSError] = []

    def ask() -> None:
        try:
            complete(simulator, max_tokens=1000)
        except OSError as failed:
            failures.append(failed)

    client = threading.Thread(target=ask)
    client.start()
    wait_for(lambda: metric(simulator, "vllm:num_requests_running") == 1)
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.process.wait(10) == 0
    client.join()
    assert len(failures) == 1


def test_server_can_outlive_its_engine(start_simulator: Start) -> None:
    simulator = start_simulator(env={"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "1"})
    os.kill(simulator.core_pid(), signal.SIGKILL)
    wait_for(lambda: simulator.health() == 503)
    assert post(simulator, "/v1/completions", {"prompt": "x"}).status == 500
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.process.wait(10) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--enable-auto-tool-choice"], "--enable-auto-tool-choice requires --tool-call-parser"),
        (["--lora-modules", "x"], "Invalid fields for --lora-modules: x"),
    ],
)
def test_arguments_that_vllm_refuses(
    start_simulator: Start, arguments: list[str], message: str
) -> None:
    simulator = start_simulator(*arguments, wait=False)
    assert simulator.process.wait(20) == 1
    assert message in simulator.log.read_text()


def test_tls(start_simulator: Start, tmp_path: Path) -> None:
    make_certificates(tmp_path, "engine")
    certificate, key = tmp_path / "engine.crt", tmp_path / "engine.key"
    simulator = start_simulator(f"--ssl-certfile={certificate}", f"--ssl-keyfile={key}", wait=False)
    trusting = ssl.create_default_context(cafile=certificate)
    url = f"https://127.0.0.1:{simulator.port}/health"
    wait_for(lambda: "Application startup complete." in simulator.log.read_text())
    with urllib.request.urlopen(url, timeout=20, context=trusting) as answer:
        assert answer.status == 200
    assert f"Starting vLLM server on https://0.0.0.0:{simulator.port}" in simulator.log.read_text()
