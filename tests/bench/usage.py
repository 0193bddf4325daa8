"""Memory and processor time of containers, read from their cgroup or their processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from support.node import descendants

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What one container used: resident memory in MiB, percent of one core."""

    memory_mib: float
    cpu_percent: float


def measure(pid: int, seconds: float) -> Usage:
    """The use of a container whose PID 1 is `pid`, over some seconds of doing nothing else."""
    before, began = processor_seconds(pid), time.monotonic()
    time.sleep(seconds)
    spent = processor_seconds(pid) - before
    return Usage(
        memory_mib=sum(resident_mib(p) for p in [pid, *descendants(pid)]),
        cpu_percent=100 * spent / (time.monotonic() - began),
    )


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"the kernel does not tell the memory of process {pid}")


def processor_seconds(pid: int) -> float:
    return sum(_ticks(p) for p in [pid, *descendants(pid)]) / TICKS_PER_SECOND


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
