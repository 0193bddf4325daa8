"""Compiled kernels on disk, as Triton keeps them: what a kept cache saves the next boot."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from engine_sim.buckets import Bucket
from engine_sim.knobs import Switches

# What a compiled kernel takes on disk, roughly.
KERNEL_BYTES = 8192


class KernelStore:
    """A directory with one folder a kernel; without a directory nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._grown = 0

    def load(self) -> list[Bucket]:
        """The kernels that earlier boots compiled; files that are none are passed over."""
        if self._directory is None:
            return []
        found = []
        for path in self._directory.glob("*/kernel.json"):
            try:
                found.append(Bucket(*json.loads(path.read_bytes())["bucket"]))
            except (OSError, ValueError, TypeError, KeyError):
                continue
        return found

    def add(self, bucket: Bucket) -> None:
        """Keep a compiled kernel."""
        name = hashlib.sha256(json.dumps(bucket).encode()).hexdigest()
        self._write(f"{name}/kernel.json", json.dumps({"bucket": bucket}).ljust(KERNEL_BYTES))

    def grow(self) -> None:
        """Add a file that no later boot looks at."""
        self._grown += 1
        self._write(f"late/{self._grown}.cubin", " " * KERNEL_BYTES)

    def _write(self, name: str, content: str) -> None:
        if self._directory is None:
            return
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def store_of(switches: Switches) -> KernelStore:
    """Where this engine's kernels go."""
    fallback = switches.cache_root and switches.cache_root / "triton_cache"
    return KernelStore(switches.triton_cache or fallback)
