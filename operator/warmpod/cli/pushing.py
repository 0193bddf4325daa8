"""What one sees while an image is pushed: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from warmpod.registry.errors import Denied, RegistryError, Unreachable
from warmpod.registry.reference import parse_reference

#: Seconds between lines where there is no terminal.
LINE_SECONDS: Final = 10.0


class PushProgress:
    """Hears of bytes from any thread, and shows them until the block ends."""

    def __init__(self, console: Console, total: int) -> None:
        """`total` bytes of files; the layers are larger by their headers, which is little."""
        self._console = console
        self._total = total
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._read = self._progress.add_task("hashed", total=total)
        self._sent = self._progress.add_task("in the registry", total=total)
        self._lock = threading.Lock()
        self._sent_bytes = 0
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> PushProgress:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def read(self, count: int) -> None:
        self._progress.advance(self._read, count)

    def sent(self, count: int) -> None:
        with self._lock:
            self._sent_bytes += count
            # Headers make layers larger than the files that were counted.
            shown = min(self._sent_bytes, self._total)
            line = self._line() if not self._console.is_terminal else ""
        self._progress.update(self._sent, completed=shown)
        if line:
            self._console.print(line, soft_wrap=True)

    def layer(self, name: str, size: int, pushed: bool) -> None:
        what = "pushed" if pushed else "is there already:"
        self._console.print(f"{what} {escape(name)} ({decimal(size)})", soft_wrap=True)

    def _line(self) -> str:
        now = time.monotonic()
        if now - self._last_line < LINE_SECONDS:
            return ""
        self._last_line = now
        rate = self._sent_bytes / (now - self._started)
        left = (self._total - self._sent_bytes) / rate if rate > 0 else 0
        return (
            f"{decimal(self._sent_bytes)} of {decimal(self._total)} in the registry, "
            f"{decimal(int(rate))}/s, {max(0, left):.0f} s left"
        )


def explained(error: RegistryError, image: str) -> str:
    """What a person can do about it."""
    match error:
        case Denied():
            host = parse_reference(image).host
            return f"{error}; log in: docker login {host} (or podman, or crane auth)"
        case Unreachable():
            return f"{error}; run it again: layers that are complete stay there"
        case _:
            return str(error)
