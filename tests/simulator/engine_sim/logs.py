"""vLLM's log lines, in the form that its 0.32 release prints them."""

from __future__ import annotations

import os
import time

from engine_sim.buckets import Bucket


def line(process: str, where: str, message: str, level: str = "INFO") -> None:
    """Print one line as vLLM's logger does: no year, no milliseconds, process and pid first."""
    stamp = time.strftime("%m-%d %H:%M:%S")
    plain(f"({process} pid={os.getpid()}) {level} {stamp} [{where}] {message}")


def plain(text: str) -> None:
    """Print a line without a prefix, as uvicorn's lines are; one write, so lines never mix."""
    os.write(1, text.encode() + b"\n")


def late_compile(bucket: Bucket, suffix: str = "") -> None:
    """The engine's own alarm about a kernel that its start-up did not compile."""
    kernel = f"_sim_{'_'.join(bucket)}_kernel{suffix}"
    line(
        "EngineCore",
        "jit_monitor.py:104",
        f"Triton kernel JIT compilation during inference: {kernel}. This causes a latency "
        "spike; consider extending warmup to cover this shape/config.",
        "WARNING",
    )
