"""SHA-256 of files, on several cores, in small pieces: never a shard in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Called with the number of bytes after each piece; what it raises stops the work.
Watch = Callable[[int], None]

PIECE_BYTES = 1024 * 1024


def unwatched(_: int) -> None:
    """The Watch of somebody who has nothing to show and nothing to stop."""


def pieces(file: BinaryIO) -> Iterator[memoryview]:
    """The content of an unbuffered file. A piece is only valid until the next one is asked for."""
    buffer = bytearray(PIECE_BYTES)
    view = memoryview(buffer)
    # Doubles the kernel's read-ahead window, which is what one reader a file needs.
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        yield view[:count]


def sha256_of(path: Path, watch: Watch = unwatched) -> str:
    with path.open("rb", buffering=0) as file:
        return sha256_of_open(file, watch)


def sha256_of_open(file: BinaryIO, watch: Watch = unwatched) -> str:
    """Hex digest of the rest of an unbuffered file."""
    digest = hashlib.sha256()
    for piece in pieces(file):
        digest.update(piece)
        watch(len(piece))
    return digest.hexdigest()


def usable_cores() -> int:
    """Cores this process may run on (a container's cpuset can be smaller than the machine)."""
    return len(os.sched_getaffinity(0))


def map_in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Results of `work` in order. Threads are enough: hashlib and read() release the GIL.

    The first error is raised, and work that has not begun is dropped."""
    pool = ThreadPoolExecutor(max_workers=usable_cores(), thread_name_prefix="weights")
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)
