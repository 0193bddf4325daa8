"""Download files in parallel, segment by segment, until all are whole, verified and named."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import requests

from warmpod.agent.staging.assembly import Assembly, Segment
from warmpod.agent.staging.errors import SourceError, changed, unreachable, unversioned
from warmpod.agent.staging.files import RemoteFile
from warmpod.agent.staging.stopping import LOOK_SECONDS
from warmpod.agent.staging.transport import Refusal, Request, Transport, pieces
from warmpod.reasons import DIGEST_MISMATCH

CONNECTIONS = 4
_RANGE = re.compile(r"bytes (?P<first>\d{1,18})-(?P<last>\d{1,18})/(?P<size>\*|\d{1,18})")


class Source(Protocol):
    """`commit`: what the plan is of, once it is made; empty where a source has none."""

    commit: str

    def plan(self) -> tuple[RemoteFile, ...]:
        """What there is. Raises SourceError."""

    def request(self, file: RemoteFile, first: int, end: int) -> Request:
        """How to get the bytes `first` to `end` (exclusive); all of them without a Range."""

    def judge(self, refusal: Refusal) -> SourceError:
        """What a refused request means for this kind of source."""


# Gets a whole file and its SHA-256.
Publish = Callable[[Assembly, str], None]


class Download:
    """`run`, once: partial files in `folder` until they are whole and verified, then published."""

    def __init__(
        self, source: Source, transport: Transport, folder: Path, publish: Publish
    ) -> None:
        self._source = source
        self._transport = transport
        self._stop = transport.stop
        self._folder = folder
        self._publish = publish
        self._lock = threading.Lock()
        self._open: list[Assembly] = []
        # Segments by path that somebody has yet to fill, or is filling.
        self._unfilled: dict[str, int] = {}
        self._digests: dict[str, str] = {}

    def run(self, files: Iterable[RemoteFile]) -> dict[str, str]:
        """SHA-256 by path. Raises SourceError, OSError, and what the watch raises; no thread is
        left then."""
        try:
            with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="staging") as pool:
                self._supervise(pool, self._units(files))
        finally:
            for assembly in self._open:
                assembly.close()
        return self._digests

    def _supervise(
        self, pool: ThreadPoolExecutor, units: Iterator[tuple[Assembly, Segment]]
    ) -> None:
        try:
            self._await([pool.submit(self._work, units) for _ in range(CONNECTIONS)])
        except BaseException:
            self._stop.abandon()
            self._transport.hang_up()
            raise

    def _await(self, workers: list[Future[None]]) -> None:
        pending = set(workers)
        while pending:
            done, pending = wait(pending, LOOK_SECONDS, FIRST_EXCEPTION)
            for worker in done:
                worker.result()
            self._stop.check()

    def _units(self, files: Iterable[RemoteFile]) -> Iterator[tuple[Assembly, Segment]]:
        """In the order of files, so that few are open at a time. A file that has nothing left
        to download still has to be finished, so it comes with a segment that is complete."""
        for file in files:
            assembly = Assembly(self._folder, file)
            self._open.append(assembly)
            self._stop.watch(assembly.done)
            pending = [segment for segment in assembly.segments if not segment.complete]
            units = pending or [Segment(0, 0)]
            self._unfilled[file.path] = len(units)
            for segment in units:
                yield assembly, segment

    def _work(self, units: Iterator[tuple[Assembly, Segment]]) -> None:
        while True:
            self._stop.check()
            with self._lock:
                unit = next(units, None)
            if unit is None:
                return
            assembly, segment = unit
            self._fill(assembly, segment)
            if self._is_last(assembly):
                self._finish(assembly)

    def _is_last(self, assembly: Assembly) -> bool:
        """True for the thread that leaves a file last: no other touches its segments then."""
        with self._lock:
            self._unfilled[assembly.file.path] -= 1
            return not self._unfilled[assembly.file.path]

    def _fill(self, assembly: Assembly, segment: Segment) -> None:
        failures = 0
        furthest = segment.done
        while not segment.complete:
            try:
                self._transfer(assembly, segment)
            except SourceError as error:
                # Bytes that an earlier attempt had brought as well are no progress.
                failures = 1 if segment.done > furthest else failures + 1
                furthest = max(furthest, segment.done)
                self._transport.pause_after(error, failures)

    def _transfer(self, assembly: Assembly, segment: Segment) -> None:
        file = assembly.file
        if not file.identity:
            # Nothing would tell that the rest is of the version that is here.
            assembly.restart()
        request = self._source.request(file, segment.position, segment.end)
        try:
            with self._transport.open(request, self._source.judge) as response:
                answer = _answer(response, file, segment)
                skip = segment.position - answer.start
                for piece in pieces(response, segment.end - answer.start):
                    self._stop.check()
                    if skip >= len(piece):
                        skip -= len(piece)
                        continue
                    self._stop.watch(assembly.write(segment, piece[skip:]))
                    skip = 0
                if segment.complete and answer.end == segment.end and any(pieces(response, 1)):
                    segment.done = 0
                    raise _longer(file)
        finally:
            assembly.record()
        if not segment.complete:
            raise unreachable(file.path, "the connection ended before the file did")

    def _finish(self, assembly: Assembly) -> None:
        file = assembly.file
        sha256, problem = assembly.finish(self._stop.check)
        if problem is not None:
            # A proxy's fault, or the disk's in what an earlier call left: once more, from scratch.
            assembly.restart()
            for segment in assembly.segments:
                self._fill(assembly, segment)
            sha256, problem = assembly.finish(self._stop.check)
        if problem is not None:
            assembly.restart()
            raise SourceError(DIGEST_MISMATCH, f"{file.path}: {problem} — upload the file again")
        self._publish(assembly, sha256)
        with self._lock:
            self._digests[file.path] = sha256
            self._open.remove(assembly)
        assembly.close()


@dataclass(frozen=True)
class _Answer:
    """Which bytes of the file the body is: `start` to `end` (exclusive)."""

    start: int
    end: int


def _answer(response: requests.Response, file: RemoteFile, segment: Segment) -> _Answer:
    """From where the segment needs it, or from the beginning when the server does not do ranges.
    Raises SourceError when the answer is of another file than the plan."""
    _check_version(response.headers, file)
    if response.status_code == 206:
        answered = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if answered is None or int(answered["first"]) != segment.position:
            raise changed(file.path)
        if answered["size"] not in ("*", str(file.size)):
            raise changed(file.path)
        return _Answer(segment.position, int(answered["last"]) + 1)
    length = response.headers.get("Content-Length")
    if response.status_code != 200 or length not in (None, str(file.size)):
        raise changed(file.path)
    return _Answer(0, file.size)


def _check_version(headers: Mapping[str, str], file: RemoteFile) -> None:
    """Raises SourceError when the answer may be of another version than the plan. One that does not
    say is taken for the same only where the digest will tell."""
    told = headers.get(file.told_by) if file.told_by else file.identity
    if told is None and file.digest is None:
        raise unversioned(file.path, file.told_by)
    if told not in (None, file.identity):
        raise changed(file.path)


def _longer(file: RemoteFile) -> SourceError:
    message = f"{file.path}: the server sends more than the {file.size} bytes that it told"
    return SourceError(DIGEST_MISMATCH, f"{message} — upload the file again, or correct the server")
