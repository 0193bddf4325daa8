"""The simulated engine looks like vLLM to the launcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.harness import SIMULATOR, free_port
from support.waiting import wait_for

OPERATOR = Path(__file__).parents[3] / "operator"


class Pod:
    """A launcher with the simulator as its engine, found on PATH as `vllm`."""

    def __init__(self, run_dir: Path) -> None:
        self.port = free_port()
        self.run_dir = run_dir
        python = str(Path(sys.executable).parent)
        environment = {
            "PYTHONPATH": str(OPERATOR),
            "PATH": os.pathsep.join([str(SIMULATOR.parent), python, os.environ["PATH"]]),
            "SIM_LOAD_SECONDS": "0.1",
            "SIM_TOKEN_SECONDS": "0.02",
            "SIM_FIRST_SECONDS": "0",
        }
        launcher = [sys.executable, "-m", "warmpod.launcher.main", "run", f"--run-dir={run_dir}"]
        engine = ["vllm", "serve", "/models/tiny", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*launcher, f"--port={self.port}", "--", *engine],
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        path = self.run_dir / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait_ready(self, boots: int) -> None:
        wait_for(lambda: [event["stage"] for event in self.events("stage")].count("ready") == boots)

    def complete(self, max_tokens: int) -> dict[str, Any]:
        body = {"prompt": "x", "max_tokens": max_tokens, "ignore_eos": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return dict(json.load(answer))

    def core_pid(self) -> int:
        main = self._child(self.process.pid)
        return self._child(main)

    def watches(self, pid: int) -> bool:
        """Whether the launcher holds a pidfd of this process."""
        for path in Path(f"/proc/{self.process.pid}/fdinfo").iterdir():
            try:
                if f"Pid:\t{pid}\n" in path.read_text():
                    return True
            except FileNotFoundError:
                continue  # a descriptor that was closed meanwhile
        return False

    @staticmethod
    def _child(pid: int) -> int:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    pod = Pod(tmp_path)
    yield pod
    if pod.process.poll() is None:
        pod.process.terminate()
        pod.process.wait(20)


def test_next_boot_follows_the_death_of_the_engine_process(pod: Pod) -> None:
    pod.wait_ready(boots=1)
    stages = [event["stage"] for event in pod.events("stage")]
    assert {"version", "args", "config", "engine_start", "weights", "http"} <= set(stages)
    boot = pod.events("boot-started")[0]["boot"]
    (pod.run_dir / "warm.json").write_text(json.dumps({"boot": boot, "warm": True}))
    # The launcher looks for new worker processes once a second; a death before that is seen by
    # the main process's own exit, five seconds later.
    core = pod.core_pid()
    wait_for(lambda: pod.watches(core))
    os.kill(core, signal.SIGKILL)
    pod.wait_ready(boots=2)
    assert pod.events("boot-ended")[0]["cause"] == "engine-process-died"
    assert pod.complete(max_tokens=2)["usage"]["completion_tokens"] == 2


def test_running_request_is_finished_before_the_stop(pod: Pod) -> None:
    pod.wait_ready(boots=1)
    answers: list[dict[str, Any]] = []
    client = threading.Thread(target=lambda: answers.append(pod.complete(max_tokens=50)))
    client.start()
    metrics = f"http://127.0.0.1:{pod.port}/metrics"
    running = b'vllm:num_requests_running{engine="0",model_name="/models/tiny"} 1.0'
    wait_for(lambda: running in urllib.request.urlopen(metrics, timeout=5).read())
    pod.process.terminate()
    assert pod.process.wait(20) == 0
    client.join()
    assert answers[0]["usage"]["completion_tokens"] == 50
