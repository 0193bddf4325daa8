"""One file while it is being downloaded: a partial file, filled in segments from several threads.

A journal beside it says how far each segment is. It is written after the content, so whatever
moment the process is killed at, it never claims more than there is. Digests are computed behind
the writers, while the content still is in the page cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warmpod.agent.staging.digests import Hashes
from warmpod.agent.staging.files import RemoteFile
from warmpod.weights.hashing import PIECE_BYTES
from warmpod.weights.receipt import boot_id

SEGMENT_BYTES = 64 * 1024 * 1024
# How much of a segment is downloaded again, at most, after the process was killed.
JOURNAL_BYTES = 16 * 1024 * 1024


@dataclass
class Segment:
    """Bytes `start` to `end` of the file, of which `done` are written and `counted` were shown
    as progress; `recorded` is what the journal says."""

    start: int
    end: int
    done: int = 0
    counted: int = 0
    recorded: int = 0

    @property
    def position(self) -> int:
        return self.start + self.done

    @property
    def complete(self) -> bool:
        return self.position == self.end


class Assembly:
    """`write` may be called from one thread a segment; `finish` once, when all are complete."""

    def __init__(self, folder: Path, file: RemoteFile) -> None:
        self.file = file
        self.partial, self._journal = partial_paths(folder, file)
        step = SEGMENT_BYTES if file.ranges else max(file.size, 1)
        self.segments = [
            Segment(start, min(start + step, file.size)) for start in range(0, file.size, step)
        ]
        self._resume()
        self._lock = threading.Lock()
        self._hash_lock = threading.Lock()
        self._hashes = Hashes(file.size, file.digest)
        self._hashed = 0
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.partial, flags, 0o600)

    @property
    def done(self) -> int:
        return sum(segment.done for segment in self.segments)

    def write(self, segment: Segment, piece: bytes) -> int:
        """Returns how many bytes are new progress."""
        view = memoryview(piece)
        while view:
            count = os.pwrite(self._descriptor, view, segment.position)
            segment.done += count
            view = view[count:]
        if segment.complete or segment.done - segment.recorded >= JOURNAL_BYTES:
            self.record()
            self._hash_behind()
        new = max(segment.done - segment.counted, 0)
        segment.counted += new
        return new

    def record(self) -> None:
        with self._lock:
            done = [segment.done for segment in self.segments]
            document = {"boot": boot_id(), "done": done}
            temporary = self._journal.with_suffix(".new")
            temporary.write_text(json.dumps(document))
            temporary.rename(self._journal)
            for segment, count in zip(self.segments, done, strict=True):
                segment.recorded = count

    def restart(self) -> None:
        """Forget the content: it is not what it should be."""
        for segment in self.segments:
            segment.done = 0
        self.record()
        with self._hash_lock:
            self._hashes = Hashes(self.file.size, self.file.digest)
            self._hashed = 0

    def finish(self, check: Callable[[], None]) -> tuple[str, str | None]:
        """SHA-256 of the file, and what is wrong with its content. It is on the disk afterwards:
        the file system may write a new name before the content that it stands for."""
        with self._hash_lock:
            self._hash_available(check)
        os.fsync(self._descriptor)
        return self._hashes.sha256(), self._hashes.mismatch()

    def close(self) -> None:
        os.close(self._descriptor)

    def forget(self) -> None:
        """The partial file has got another name, or is of no use."""
        self._journal.unlink(missing_ok=True)
        self.partial.unlink(missing_ok=True)

    def _resume(self) -> None:
        try:
            document = json.loads(self._journal.read_bytes())
            size = self.partial.stat().st_size
            done = [int(count) for count in document["done"]]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return
        # After a crash of the node the journal may be ahead of the content. A digest would tell.
        trusted = self.file.digest is not None or document.get("boot") == boot_id()
        trusted = trusted and bool(self.file.identity)
        if not trusted or len(done) != len(self.segments):
            return
        for segment, count in zip(self.segments, done, strict=True):
            if 0 <= count <= segment.end - segment.start and segment.start + count <= size:
                segment.done = segment.recorded = segment.counted = count

    def _hash_behind(self) -> None:
        """One thread hashes what is there; the others need not wait for it."""
        if self._hash_lock.acquire(blocking=False):
            try:
                self._hash_available(lambda: None)
            finally:
                self._hash_lock.release()

    def _hash_available(self, check: Callable[[], None]) -> None:
        limit = self._contiguous()
        while self._hashed < limit:
            check()
            piece = os.pread(self._descriptor, min(PIECE_BYTES, limit - self._hashed), self._hashed)
            if not piece:
                raise OSError(f"{self.partial} is shorter than what was written to it")
            self._hashes.update(piece)
            self._hashed += len(piece)

    def _contiguous(self) -> int:
        """Bytes from the beginning that are written without a gap."""
        for segment in self.segments:
            if not segment.complete:
                return segment.position
        return self.file.size


def partial_paths(folder: Path, file: RemoteFile) -> tuple[Path, Path]:
    """Partial file and journal. Another version of the file has others, so versions never mix."""
    key = json.dumps([file.path, file.size, file.identity, SEGMENT_BYTES])
    name = hashlib.sha256(key.encode()).hexdigest()
    return folder / f"{name}.part", folder / f"{name}.json"


def staged_bytes(folder: Path, file: RemoteFile) -> int:
    """Bytes that the partial file takes on the disk already."""
    try:
        blocks = partial_paths(folder, file)[0].stat().st_blocks
    except FileNotFoundError:
        return 0
    return min(blocks * 512, file.size)
