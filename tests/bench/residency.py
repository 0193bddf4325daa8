"""How long an engine reads weights that lie on disk, in the page cache, or in a tmpfs.

Read as vLLM reads safetensors by itself: each shard is mapped, and tensor after tensor copied into
memory that the model has already. The copy stands for the way to the GPU, which is faster than
these cores, so that what differs is what the medium costs.
"""

from __future__ import annotations

import mmap
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.files import DISK, MEMORY, forget, make_model
from support.api import JsonObject
from warmpod.agent.residency.holder import Holder
from warmpod.weights.hashing import unwatched

FILES, FILE_BYTES = 4, 2**30
TENSOR_BYTES = 64 * 2**20
REPEATS = 5


def measure() -> JsonObject:
    with ExitStack() as stack:
        disk = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=DISK)))
        node = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY)))
        pod = stack.enter_context(tmpfs(disk / "pod"))
        files = make_model(disk / "model", FILES, FILE_BYTES)
        seconds = _measure(files, copies(files, node), copies(files, pod))
    return {
        "bytes": FILES * FILE_BYTES,
        "median_s": {what: round(statistics.median(s), 3) for what, s in seconds.items()},
        "all_s": {what: [round(each, 3) for each in s] for what, s in seconds.items()},
    }


def _measure(disk: list[Path], node: list[Path], pod: list[Path]) -> dict[str, list[float]]:
    """In turns, so that noise of the machine meets all alike."""
    target = bytearray(b"\1") * TENSOR_BYTES
    seconds: dict[str, list[float]] = {
        name: [] for name in ("disk, cold", "Image", "NodeMemory", "PodMemory")
    }
    for _ in range(REPEATS):
        for path in disk:
            forget(path)
        seconds["disk, cold"].append(load(disk, target))
        with held(disk):
            seconds["Image"].append(load(disk, target))
        seconds["NodeMemory"].append(load(node, target))
        seconds["PodMemory"].append(load(pod, target))
    return seconds


def load(files: Iterable[Path], target: bytearray) -> float:
    """Seconds."""
    started = time.perf_counter()
    for file in files:
        with file.open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        with mapped, memoryview(mapped) as content:
            for offset in range(0, len(content), TENSOR_BYTES):
                tensor = content[offset : offset + TENSOR_BYTES]
                target[: len(tensor)] = tensor
                tensor.release()
    return time.perf_counter() - started


def copies(files: Iterable[Path], directory: Path) -> list[Path]:
    return [Path(shutil.copy(file, directory)) for file in files]


@contextmanager
def held(files: Iterable[Path]) -> Iterator[None]:
    """Locked in memory, as the agent does it."""
    holder = Holder()
    holder.map(files)
    holder.load(unwatched)
    try:
        yield
    finally:
        holder.close()


@contextmanager
def tmpfs(directory: Path) -> Iterator[Path]:
    """A file system of its own in memory, as the kubelet makes one for a pod."""
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "bench", str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)
