"""What a restart of the agent costs whose weights are verified and in memory already: a process as
in the pod, from its start until it says that it is ready."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.files import DISK, make_model
from bench.usage import processor_seconds
from simulator.harness import free_port
from support.api import JsonObject

FILES, FILE_BYTES = 4, 2_500_000_000
RESTARTS = 5
LOOK_SECONDS = 1.0
LOOKS = 30
LIMIT_S = 300
POLL_S = 0.005
OPERATOR = Path(__file__).resolve().parents[2] / "operator"


def measure() -> JsonObject:
    with tempfile.TemporaryDirectory(dir=DISK) as name:
        directory, state = Path(name, "model"), Path(name, "state")
        state.mkdir()
        make_model(directory, FILES, FILE_BYTES)
        with agent(directory, state) as first:
            verified = first.ready_after()
        restarts = []
        for _ in range(RESTARTS):
            with agent(directory, state) as next_:
                restarts.append((next_.answers_after(), next_.ready_after()))
                last = next_.look_cost() if len(restarts) == RESTARTS else 0.0
    answers, ready = zip(*restarts, strict=True)
    return {
        "bytes": FILES * FILE_BYTES,
        "files": FILES,
        "without_receipt_s": round(verified, 2),
        "restart_s": [round(seconds, 3) for seconds in ready],
        "restart_median_s": round(statistics.median(ready), 3),
        "of_this_the_interpreter_s": round(statistics.median(answers), 3),
        "look_ms": round(1000 * last, 2),
    }


class Agent:
    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._started = time.monotonic()
        self._process = process
        self._url = f"http://127.0.0.1:{port}/readyz"

    def answers_after(self) -> float:
        """Seconds until it answers at all."""
        return self._wait({200, 503})

    def ready_after(self) -> float:
        return self._wait({200})

    def look_cost(self) -> float:
        """Seconds of processor time of one look at weights that are as they should be."""
        before = processor_seconds(self._process.pid)
        time.sleep(LOOKS * LOOK_SECONDS)
        return (processor_seconds(self._process.pid) - before) / LOOKS

    def _wait(self, wanted: set[int]) -> float:
        while self._status() not in wanted:
            if self._process.poll() is not None:
                raise AssertionError(f"the agent ended with {self._process.returncode}")
            if time.monotonic() - self._started > LIMIT_S:
                raise AssertionError("the agent is not ready")
            time.sleep(POLL_S)
        return time.monotonic() - self._started

    def _status(self) -> int | None:
        try:
            with urllib.request.urlopen(self._url, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None


@contextmanager
def agent(directory: Path, state: Path) -> Iterator[Agent]:
    """As in a pod, but there is nobody to report to."""
    port = free_port()
    config = {
        "model": "bench",
        "model_uid": "bench",
        "medium": "Image",
        "sets": [{"name": "bench", "source": str(directory)}],
        "state_dir": str(state),
        "port": port,
        "look_seconds": LOOK_SECONDS,
    }
    environment = os.environ | {
        "PYTHONPATH": str(OPERATOR),
        "WARMPOD_AGENT_CONFIG": json.dumps(config),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT_HTTPS": str(free_port()),
        "POD_NAMESPACE": "bench",
        "POD_NAME": "bench",
        "POD_UID": "bench",
    }
    command = [sys.executable, "-m", "warmpod.agent.main"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield Agent(process, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
