"""Passes the engine's output on unchanged, and reads along.

One thread a pipe: whatever happens to the container's log, the launcher's main thread must stay
free to notice the engine's death.
"""

from __future__ import annotations

import fcntl
import os
import select
import termios
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from warmpod.launcher.console import say
from warmpod.launcher.events import EventLog
from warmpod.launcher.log.stages import Failure, Finding, LateCompile, Slept, Stage, clean, findings
from warmpod.launcher.policy import phase_after, reason_in_phase

CHUNK_BYTES = 65536
MAX_LINE_BYTES = 65536
LAST_LINES = 10
# A boot writes a few dozen events; an engine that repeats a line for ever must not fill the disk.
MAX_FINDINGS = 1000
# A round of the warm-up is judged by whether it compiled. So after MAX_FINDINGS kernels one is told
# now and then, in seconds: an engine that went silent would look as if it had settled.
LATE_COMPILE_SECONDS = 0.5
MAX_LATE_COMPILES = 10_000


class LineSplitter:
    """Cuts chunks into lines of text.

    A progress bar begins its line with a carriage return and may never end it, so what follows one
    is taken at once. Of a line longer than MAX_LINE_BYTES only the beginning is kept.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes."""
        data = self._rest + chunk
        bar = data.rfind(b"\r") > data.rfind(b"\n")
        pieces = data.replace(b"\r", b"\n").split(b"\n")
        if self._skipping and len(pieces) > 1:
            pieces.pop(0)
            self._skipping = False
        self._rest = pieces.pop()
        if bar:
            pieces.append(self._rest)
            self._rest = b""
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
        self._depths: dict[str, int] = {}  # of the reasons that were told
        self._left = MAX_FINDINGS
        self._late_compiles = 0
        self._late_told_at = 0.0
        self._over = False
        self._phase = ""
        self.ready = threading.Event()
        self.when_passed: Callable[[Stage], None] = lambda _stage: None

    def hear(self, line: str) -> None:
        """Take one line of output."""
        with self._lock:
            self._last.append(clean(line))
            for finding in findings(line):
                self._tell(finding)

    def note(self, failure: Failure) -> None:
        """Take a failure that is known from elsewhere."""
        with self._lock:
            self._tell_failure(failure)

    def last_lines(self) -> list[str]:
        """The last lines heard, oldest first."""
        with self._lock:
            return list(self._last)

    def reasons(self) -> list[str]:
        """Those of the failures that were told."""
        with self._lock:
            return list(self._depths)

    def silence(self) -> None:
        """Write no more events: the boot is over, whatever its leftovers print."""
        with self._lock:
            self._over = True

    def _tell(self, finding: Finding) -> None:
        if isinstance(finding, Stage):
            self._tell_stage(finding)
        elif isinstance(finding, LateCompile):
            self._tell_late_compile(finding)
        elif isinstance(finding, Slept):
            self._tell_slept(finding)
        else:
            self._tell_failure(finding)

    def _tell_stage(self, stage: Stage) -> None:
        phase = phase_after(stage.name, self._phase)
        in_phase = stage.name == "graphs_start" and phase == self._phase
        self._phase = phase
        if in_phase:
            return  # a progress bar has many lines
        if stage.name == "ready":
            self.ready.set()
        facts = {"seconds": stage.seconds, "detail": stage.detail}
        known = {name: value for name, value in facts.items() if value is not None}
        if self._left > 0:
            self._left -= 1
            self._write("stage", stage=stage.name, **known)
        if not self._over:
            self.when_passed(stage)

    def _tell_late_compile(self, late: LateCompile) -> None:
        now = time.monotonic()
        rare = self._late_compiles >= MAX_FINDINGS
        if self._late_compiles >= MAX_LATE_COMPILES:
            return
        if rare and now - self._late_told_at < LATE_COMPILE_SECONDS:
            return
        self._late_compiles += 1
        self._late_told_at = now
        self._write("late-compile", kernel=late.kernel)

    def _tell_slept(self, slept: Slept) -> None:
        if self._left > 0:
            self._left -= 1
            self._write("slept", freed_gib=slept.freed_gib, held_gib=slept.held_gib)

    def _tell_failure(self, failure: Failure) -> None:
        """Tell each reason once, and nothing that only follows from one that was told."""
        reason = reason_in_phase(failure.reason, self._phase)
        causes = [depth for depth in self._depths.values() if depth <= failure.depth]
        if reason in self._depths or (failure.depth and causes):
            return
        self._depths[reason] = failure.depth
        self._write("failure", reason=reason, line=failure.line)

    def _write(self, event: str, **fields: Any) -> None:
        if not self._over:
            self._events.write(event, self._boot, **fields)


class Output:
    """The two pipes of a boot and the threads that empty them."""

    def __init__(self, hear: Callable[[str], object]) -> None:
        self._hear = hear
        self._pipes = {target: os.pipe() for target in (1, 2)}
        self._threads: list[threading.Thread] = []
        self._heard = threading.Condition()
        # Read ends. A chunk is taken out of a pipe and marked as not heard yet at once.
        self._open: set[int] = set()
        self._hearing: set[int] = set()

    def ends_for_engine(self) -> list[tuple[int, int]]:
        """Pairs of (the pipe's write end, the engine's descriptor for it)."""
        return [(write_end, target) for target, (_, write_end) in self._pipes.items()]

    def start(self) -> None:
        """Begin to pass output on; call it once the engine holds the pipes' write ends."""
        for target, (read_end, write_end) in self._pipes.items():
            os.close(write_end)
            self._open.add(read_end)
            thread = threading.Thread(
                target=self._copy, args=(read_end, target), name=f"output-{target}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def drain(self, seconds: float) -> None:
        """Wait until everything that was written so far is heard, at most `seconds`.

        Not for the pipes' end, because a process that outlived the engine may hold them open.
        """
        with self._heard:
            self._heard.wait_for(
                lambda: not self._hearing and not any(map(unread, self._open)), seconds
            )

    def join(self, seconds: float) -> None:
        """Wait until all output was passed on, at most `seconds`.

        Not longer, because a process that outlived the engine may hold the pipes open for ever.
        """
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _copy(self, source: int, target: int) -> None:
        splitter = LineSplitter()
        readable = select.poll()
        readable.register(source, select.POLLIN)
        open_target = True
        while readable.poll() and (chunk := self._take(source, splitter)):
            open_target = open_target and write_all(target, chunk)

    def _take(self, source: int, splitter: LineSplitter) -> bytes:
        """The next chunk, heard already; nothing at the end."""
        with self._heard:
            chunk = os.read(source, CHUNK_BYTES)
            self._hearing.add(source)
        self._listen(splitter.feed(chunk or b"\n"))
        with self._heard:
            self._hearing.discard(source)
            if not chunk:
                self._open.discard(source)
                os.close(source)
            self._heard.notify_all()
        return chunk

    def _listen(self, lines: list[str]) -> None:
        """An engine whose pipe nobody empties hangs, so nothing in a line may end this thread."""
        for line in lines:
            try:
                self._hear(line)
            except Exception as failed:
                say(f"a line of the engine's output was not understood: {failed!r}")


def unread(descriptor: int) -> bool:
    """Whether a pipe holds something."""
    return any(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))


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
