"""SHA-256 of files, on several cores."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def sha256_of(path: Path) -> str:
    """Hex digest of a file, read in small pieces: never a shard in memory."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def usable_cores() -> int:
    """Cores this process may run on (a container's cpuset can be smaller than the machine)."""
    return len(os.sched_getaffinity(0))


def map_in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results of `work` in order. Threads are enough: hashlib and read() release the GIL."""
    with ThreadPoolExecutor(max_workers=usable_cores(), thread_name_prefix="hash") as pool:
        yield from pool.map(work, items)
