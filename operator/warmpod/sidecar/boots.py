"""What the launcher tells: its events, and the lock that lives exactly as long as a boot."""

import asyncio
import contextlib
import fcntl
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LauncherEvent:
    ts: float
    boot: str
    name: str
    fields: Mapping[str, Any]

    @classmethod
    def parse(cls, line: str) -> Self:
        """Raises ValueError for a line that is no event."""
        try:
            fields = json.loads(line)
            return cls(float(fields["ts"]), fields["boot"], fields["event"], fields)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a launcher event: {line[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class Boot:
    """One life of an engine process."""

    id: str
    number: int
    lock: Path
    started_at: float  # unix seconds
    # It runs with the settings of spec.warmup.compare, and takes no traffic.
    reference: bool = False

    @classmethod
    def of(cls, event: LauncherEvent, run_dir: Path) -> Self:
        fields = event.fields
        lock = run_dir / str(fields["lock"])
        reference = fields.get("reference") is True
        return cls(event.boot, int(fields["number"]), lock, event.ts, reference)


class EventFollower:
    """Reads what was appended since the last call, across replacement of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._offset = 0
        self._last = b""

    def read_new(self) -> list[LauncherEvent]:
        try:
            state = self._path.stat()
        except FileNotFoundError:
            return []
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._inode, self._offset = state.st_ino, 0
            repeated = self._last
        else:
            repeated = b""
        if state.st_size == self._offset:
            return []
        return list(self._parse(repeated))

    def _parse(self, repeated: bytes) -> Iterator[LauncherEvent]:
        """A replaced file repeats events up to that line; the clock may have been set meanwhile."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]  # the last line may be half written
        self._offset += len(whole)
        lines = whole.splitlines()
        if repeated and repeated in lines:
            del lines[: lines.index(repeated) + 1]
        self._last = lines[-1] if lines else self._last
        for line in lines:
            try:
                yield LauncherEvent.parse(line.decode(errors="replace"))
            except (ValueError, RecursionError) as error:
                log.warning("%s: %s", self._path, error)


def lock_held(boot: Boot) -> bool:
    """Whether the boot is alive at this moment."""
    try:
        with boot.lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


async def boot_ended(boot: Boot) -> None:
    """Return when the boot's lock is released; the kernel wakes us, nothing polls.

    The blocking call has a daemon thread of its own, because threads of the default executor
    would keep the process from exiting for as long as the boot lives."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def resolve(error: OSError | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def wait() -> None:
        error = _wait_for_release(boot.lock)
        with contextlib.suppress(RuntimeError):  # the loop is closed when the process exits
            loop.call_soon_threadsafe(resolve, error)

    threading.Thread(target=wait, name=f"lock-{boot.id}", daemon=True).start()
    await ended


def _wait_for_release(lock: Path) -> OSError | None:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return None  # the launcher removes the locks of boots that have ended
    except OSError as error:
        return error
    return None
