"""The engine process: a child titled `VLLM::EngineCore`, as vLLM has it.

It holds no model. It takes its time to "load", says so in vLLM's words, and then lives until
its parent goes; its death is what makes the server unhealthy."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from engine_sim import process
from engine_sim.setup import Setup
from engine_sim.startup import StartFailed, Startup, say

TITLE = b"VLLM::EngineCore"


@dataclass(frozen=True)
class EngineCore:
    """The running child: its pid, and a pipe that says `R` once it has loaded."""

    pid: int
    ready_fd: int

    def kill(self) -> None:
        """Die as by the kernel's out-of-memory killer."""
        os.kill(self.pid, signal.SIGKILL)


def start(setup: Setup) -> EngineCore:
    """Fork the engine process. Call it before any thread or event loop exists."""
    ready_read, ready_write = os.pipe()
    parent_read, parent_write = os.pipe()

    def run() -> int:
        os.close(ready_read)
        os.close(parent_write)
        return _run(setup, ready_write, parent_read)

    pid = process.fork_named(TITLE, run)
    # parent_write stays open on purpose: the child sees its end when this process is gone.
    os.close(ready_write)
    os.close(parent_read)
    return EngineCore(pid, ready_read)


def _run(setup: Setup, ready_fd: int, parent_fd: int) -> int:
    try:
        Startup(setup).run()
        if setup.knobs.fault.name == "crash-after-load":
            raise StartFailed
    except StartFailed:
        say("core.py:1001", "EngineCore failed to start.", "ERROR")
        return 1
    os.write(ready_fd, b"R")
    os.read(parent_fd, 1)
    return 0
