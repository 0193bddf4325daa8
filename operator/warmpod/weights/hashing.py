"""SHA-256 of files, on several cores, in small pieces: never a shard in memory.

SHA-256 is serial: one file is hashed by one core, however many there are. So files are spread
over the cores, and of a file that has a core to itself and others idle, a second thread reads
(and, for a copy, writes) ahead, so that the hashing core does nothing but hash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Called with the number of bytes after each piece; what it raises stops the work.
Watch = Callable[[int], None]
# Given each piece and its offset, in the thread that reads.
Use = Callable[[memoryview, int], None]

PIECE_BYTES = 1024 * 1024
# Pieces in flight between the two threads of one file.
AHEAD = 3
# Buffers count against the agent's memory limit, and so many cores outrun any disk.
MAX_THREADS = 32


def unwatched(_: int) -> None:
    """The Watch of somebody who has nothing to show and nothing to stop."""


def unused(_: memoryview, __: int) -> None:
    """The Use of somebody who only wants the digest."""


def sha256_of(path: Path, watch: Watch = unwatched, *, ahead: bool = False) -> str:
    with path.open("rb", buffering=0) as file:
        return sha256_of_open(file, watch, ahead=ahead)


def sha256_of_open(
    file: BinaryIO, watch: Watch = unwatched, use: Use = unused, *, ahead: bool = False
) -> str:
    """Hex digest of the rest of an unbuffered file. `ahead`: read and `use` the pieces in a
    second thread, which pays when a core is idle."""
    digest = hashlib.sha256()
    with _pieces(file, use, AHEAD if ahead else 0) as pieces:
        for piece in pieces:
            digest.update(piece)
            watch(len(piece))
    return digest.hexdigest()


def pieces(file: BinaryIO) -> Iterator[memoryview]:
    """The content of an unbuffered file. A piece is only valid until the next one is asked for."""
    return _read_into_one(file, unused)


@contextmanager
def _pieces(file: BinaryIO, use: Use, ahead: int) -> Iterator[Iterator[memoryview]]:
    """The content. A piece is only valid until the next one is asked for."""
    if not ahead:
        yield _read_into_one(file, use)
        return
    reader = _Ahead(file, use, ahead)
    try:
        yield reader.pieces()
    finally:
        reader.end()


def _read_into_one(file: BinaryIO, use: Use) -> Iterator[memoryview]:
    buffer = bytearray(PIECE_BYTES)
    return _read(file, use, lambda: buffer)


def _read(file: BinaryIO, use: Use, buffer: Callable[[], bytearray]) -> Iterator[memoryview]:
    # Doubles the kernel's read-ahead window, which is what one reader a file needs.
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    offset = 0
    while count := file.readinto(into := buffer()):  # type: ignore[attr-defined]
        piece = memoryview(into)[:count]
        use(piece, offset)
        offset += count
        yield piece


class _Stopped(Exception):
    """The hashing side gave up, so nobody wants more pieces."""


class _Ahead:
    """A thread that fills buffers while another one hashes earlier ones."""

    def __init__(self, file: BinaryIO, use: Use, buffers: int) -> None:
        self._file = file
        self._use = use
        self._empty: SimpleQueue[bytearray | None] = SimpleQueue()
        self._full: SimpleQueue[memoryview | BaseException | None] = SimpleQueue()
        for _ in range(buffers):
            self._empty.put(bytearray(PIECE_BYTES))
        self._thread = Thread(target=self._run, name="read-ahead", daemon=True)
        self._thread.start()

    def pieces(self) -> Iterator[memoryview]:
        while (piece := self._full.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
            self._empty.put(piece.obj)  # type: ignore[arg-type]

    def end(self) -> None:
        self._empty.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            for piece in _read(self._file, self._use, self._next_buffer):
                self._full.put(piece)
            self._full.put(None)
        except _Stopped:
            pass
        except BaseException as error:
            self._full.put(error)

    def _next_buffer(self) -> bytearray:
        buffer = self._empty.get()
        if buffer is None:
            raise _Stopped
        return buffer


def usable_cores() -> int:
    """Cores this process may run on (a container's cpuset can be smaller than the machine)."""
    return len(os.sched_getaffinity(0))


def cores_are_idle(files: int) -> bool:
    """Whether there are two cores for each of so many files, as `ahead` wants them."""
    return 2 * files <= _threads()


def map_in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Results of `work` in order. Threads are enough: hashlib and read() release the GIL.

    All callers of the process share one thread a core, so that several sets of weights take no
    more memory than one; so `work` must not call this in turn. The first error is raised, and
    work that has not begun is dropped."""
    futures: list[Future[Result]] = [_pool().submit(work, item) for item in items]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        for future in futures:
            if not future.cancelled():
                future.exception()  # waits: nobody may still write when this returns


def _threads() -> int:
    return min(usable_cores(), MAX_THREADS)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_threads(), thread_name_prefix="weights")
