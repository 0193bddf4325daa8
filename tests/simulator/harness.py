"""Runs the simulator as a process, for the tests of whatever talks to an engine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SIMULATOR = Path(__file__).parent / "vllm"


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Simulator:
    """A running simulator, served name `tiny`; its output goes to the file `log`."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def base_url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def health(self) -> int:
        """The status of /health; 0 when nothing answers."""
        try:
            with urllib.request.urlopen(f"{self.base_url}/health", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code
        except OSError:
            return 0

    def core_pid(self) -> int:
        """The pid of the engine process."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert len(children) == 1
        return int(children[0])

    def stop(self) -> None:
        """End it, whatever it does; its engine process follows by itself."""
        self.process.kill()
        self.process.wait()


def start_simulator(
    log: Path,
    *arguments: str,
    port: int,
    env: Mapping[str, str] | None = None,
    **knobs: object,
) -> Simulator:
    """Start a simulator with arguments of `vllm serve` and `SIM_*` knobs as keywords; `env` is
    for vLLM's own variables."""
    environment = {"SIM_LOAD_SECONDS": "0.05", "SIM_TOKEN_SECONDS": "0.001", **(env or {})}
    environment |= {f"SIM_{name.upper()}": str(value) for name, value in knobs.items()}
    command = [sys.executable, str(SIMULATOR), "serve", "/models/tiny"]
    command += ["--served-model-name", "tiny", "--port", str(port), *arguments]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=output, stderr=output, text=True
        )
    return Simulator(process, port, log)
