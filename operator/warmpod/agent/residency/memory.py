"""How much memory the weights may take: the container's limit and what the node has left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmpod.protocol import REMEDY
from warmpod.quantity import human

# cgroup v2 as a container sees it, then v1.
LIMIT_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
MEMINFO = Path("/proc/meminfo")
# What the agent itself needs of its limit, in bytes: interpreter, buffers, page tables.
OWN_BYTES = 64 * 1024 * 1024
# cgroup v1 writes "no limit" as a number near 2**63.
NO_LIMIT = 2**60


@dataclass(frozen=True)
class Room:
    """Bytes: the container's limit (None without one) and what the node could give."""

    limit: int | None
    available: int


def measure() -> Room:
    return Room(_limit(), _available())


def shortage(needed: int, room: Room) -> str | None:
    """Why `needed` bytes more cannot be held, or None. Asked before locking: a container that
    locks more than its limit is killed, and one on a full node gets somebody else killed."""
    if room.limit is not None and needed > room.limit - OWN_BYTES:
        return (
            f"{human(needed)} of weights do not fit the container's memory limit of "
            f"{human(room.limit)}{REMEDY}set spec.weights.size to the size of all weights, "
            f"at least {human(needed)}"
        )
    if needed > room.available:
        return (
            f"{human(needed)} of weights do not fit the node's available memory of "
            f"{human(room.available)}{REMEDY}free memory on the node, or choose larger nodes in "
            "spec.pod.nodeSelector"
        )
    return None


def _limit() -> int | None:
    for path in LIMIT_FILES:
        if path.exists():
            text = path.read_text().strip()
            limit = NO_LIMIT if text == "max" else int(text)
            return limit if limit < NO_LIMIT else None
    return None


def _available() -> int:
    for line in MEMINFO.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise RuntimeError(f"{MEMINFO} has no MemAvailable")
