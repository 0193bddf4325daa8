"""Passes the engine's output on unchanged, and reads along.

One thread a pipe: whatever happens to the container's log, the launcher's main thread must stay
free to notice the engine's death.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

from warmpod.launcher.console import say
from warmpod.launcher.events import EventLog
from warmpod.launcher.stages import Failure, Finding, LateCompile, Stage, clean, findings

CHUNK_BYTES = 65536
MAX_LINE_BYTES = 65536
LAST_LINES = 10
# A boot writes a few dozen events; an engine that repeats a line for ever must not fill the disk.
MAX_FINDINGS = 1000


class LineSplitter:
    """Cuts chunks into lines of text; progress bars end theirs with a carriage return.

    Of a line longer than MAX_LINE_BYTES only the beginning is kept.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes."""
        pieces = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        if self._skipping and len(pieces) > 1:
            pieces.pop(0)
            self._skipping = False
        self._rest = pieces.pop()
        if self._skipping:
            self._rest = b""
        elif len(self._rest) > MAX_LINE_BYTES:
            pieces.append(self._rest)
            self._rest, self._skipping = b"", True
        return [
            piece[:MAX_LINE_BYTES].decode("utf-8", "replace") for piece in pieces if piece.strip()
        ]


class Listener:
    """Turns the lines of one boot into events, and remembers the last ones."""

    def __init__(self, boot: str, events: EventLog) -> None:
        self._boot = boot
        self._events = events
        self._lock = threading.Lock()
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._reasons: set[str] = set()
        self._left = MAX_FINDINGS
        self.ready = threading.Event()

    def hear(self, line: str) -> None:
        """Take one line of output."""
        with self._lock:
            self._last.append(clean(line))
            for finding in findings(line):
                self._tell(finding)

    def last_lines(self) -> list[str]:
        """The last lines heard, oldest first."""
        with self._lock:
            return list(self._last)

    def silence(self) -> None:
        """Write no more events: the boot is over, whatever its leftovers print."""
        with self._lock:
            self._left = 0

    def _tell(self, finding: Finding) -> None:
        if isinstance(finding, Stage) and finding.name == "ready":
            self.ready.set()
        if self._left == 0:
            return
        if isinstance(finding, Stage):
            facts = {"seconds": finding.seconds, "detail": finding.detail}
            known = {name: value for name, value in facts.items() if value is not None}
            self._events.write("stage", self._boot, stage=finding.name, **known)
        elif isinstance(finding, LateCompile):
            self._events.write("late-compile", self._boot, kernel=finding.kernel)
        else:
            self._tell_failure(finding)
        self._left -= 1

    def _tell_failure(self, failure: Failure) -> None:
        """Tell each reason once, and nothing that only follows from one that was told."""
        known = bool(self._reasons) if failure.consequence else failure.reason in self._reasons
        if known:
            return
        self._reasons.add(failure.reason)
        self._events.write("failure", self._boot, reason=failure.reason, line=failure.line)


class Output:
    """The two pipes of a boot and the threads that empty them."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear
        self._pipes = {target: os.pipe() for target in (1, 2)}
        self._threads: list[threading.Thread] = []

    def ends_for_engine(self) -> list[tuple[int, int]]:
        """Pairs of (the pipe's write end, the engine's descriptor for it)."""
        return [(write_end, target) for target, (_, write_end) in self._pipes.items()]

    def start(self) -> None:
        """Begin to pass output on; call it once the engine holds the pipes' write ends."""
        for target, (read_end, write_end) in self._pipes.items():
            os.close(write_end)
            thread = threading.Thread(
                target=self._copy, args=(read_end, target), name=f"output-{target}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def join(self, seconds: float) -> None:
        """Wait until all output was passed on, at most `seconds`.

        Not longer, because a process that outlived the engine may hold the pipes open for ever.
        """
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _copy(self, source: int, target: int) -> None:
        splitter = LineSplitter()
        open_target = True
        while chunk := os.read(source, CHUNK_BYTES):
            self._listen(splitter.feed(chunk))
            open_target = open_target and write_all(target, chunk)
        self._listen(splitter.feed(b"\n"))
        os.close(source)

    def _listen(self, lines: list[str]) -> None:
        """An engine whose pipe nobody empties hangs, so nothing in a line may end this thread."""
        for line in lines:
            try:
                self._hear(line)
            except Exception as failed:
                say(f"a line of the engine's output was not understood: {failed!r}")


def write_all(target: int, data: bytes) -> bool:
    """Write all of `data`; False when nobody reads the target any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select([], [target], [])
        except OSError as failed:
            say(f"the engine's output is dropped: descriptor {target}: {failed.strerror}")
            return False
    return True
