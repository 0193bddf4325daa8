"""The engine process: a child titled `VLLM::EngineCore`, as vLLM has it.

It holds no model. It takes its time to "load", says so in vLLM's words, and then lives until
its parent goes; its death is what makes the server unhealthy.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from engine_sim import logs
from engine_sim.settings import VERSION, Arguments, Knobs

TITLE = b"VLLM::EngineCore"
PR_SET_NAME = 15


@dataclass(frozen=True)
class EngineCore:
    """The running child: its pid, and a pipe that says `R` once it has loaded."""

    pid: int
    ready_fd: int

    def kill(self) -> None:
        """Die as by the kernel's out-of-memory killer."""
        os.kill(self.pid, signal.SIGKILL)


def start(arguments: Arguments, knobs: Knobs) -> EngineCore:
    """Fork the engine process. Call it before any thread or event loop exists."""
    ready_read, ready_write = os.pipe()
    parent_read, parent_write = os.pipe()
    pid = os.fork()
    if pid:
        # parent_write stays open on purpose: the child sees its end when this process is gone.
        os.close(ready_write)
        os.close(parent_read)
        return EngineCore(pid, ready_read)
    os.close(ready_read)
    os.close(parent_write)
    status = 1
    try:
        status = _run(arguments, knobs, ready_write, parent_read)
    except BaseException:  # nothing of the parent's stack may run in the child
        traceback.print_exc()
    finally:
        os._exit(status)


def _run(arguments: Arguments, knobs: Knobs, ready_fd: int, parent_fd: int) -> int:
    set_title(TITLE)
    _load(arguments, knobs.load_seconds)
    if knobs.fault.name == "crash-after-load":
        logs.line("EngineCore", "core.py:1001", "EngineCore failed to start.", "ERROR")
        return 1
    os.write(ready_fd, b"R")
    os.read(parent_fd, 1)
    return 0


def _load(arguments: Arguments, seconds: float) -> None:
    for share, where, message in (
        (
            0.1,
            "core.py:105",
            f"Initializing a V1 LLM engine (v{VERSION}) with config: model='{arguments.model}'",
        ),
        (
            0.1,
            "parallel_state.py:1523",
            "world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:29500 "
            "backend=gloo",
        ),
        (0.1, "gpu_model_runner.py:4011", f"Starting to load model {arguments.model}..."),
        (0.3, "default_loader.py:384", f"Loading weights took {seconds * 0.3:.2f} seconds"),
        (
            0.1,
            "gpu_model_runner.py:4108",
            f"Model loading took 0.01 GiB memory and {seconds * 0.4:.6f} seconds",
        ),
        (0.1, "monitor.py:70", f"Initial profiling/warmup run took {seconds * 0.1:.2f} s"),
        (
            0.1,
            "kv_cache_utils.py:1600",
            "CPU KV cache size: 65,536 tokens, Maximum concurrency for "
            f"{arguments.max_model_len} tokens per request: 32.00x",
        ),
        (
            0.1,
            "core.py:281",
            f"init engine (profile, create kv cache, warmup model) took {seconds * 0.3:.2f} s",
        ),
    ):
        time.sleep(seconds * share)
        logs.line("EngineCore", where, message)


def set_title(title: bytes) -> None:
    """Show `title` in /proc/PID/comm and /proc/PID/cmdline, as setproctitle does."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, ctypes.c_char_p(title), 0, 0, 0)
    # After the command's closing parenthesis the fields start at number 3; 48 and 49 are the
    # addresses of the first and the last byte of the arguments (proc_pid_stat(5)).
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[48 - 3]), int(fields[49 - 3])
    if end > start:
        shown = title[: end - start - 1].ljust(end - start, b"\0")
        ctypes.memmove(start, shown, end - start)
