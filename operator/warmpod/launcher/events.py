"""Writes the start-up events as JSON lines, for whoever judges the boot from outside.

Events are an aid: an engine must start and serve also when the file cannot be written, so a
failed write is reported once and the launcher goes on.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from warmpod.launcher.console import say

MAX_BYTES = 1024 * 1024
KEPT_BYTES = 256 * 1024
# More than a boot writes. The engine shares the directory and may fill it.
RESERVED_BYTES = 128 * 1024
# Below this the sidecar can hardly write a file.
LEAST_FREE_BYTES = 16 * 1024
_FALLOC_FL_KEEP_SIZE = 1


class EventLog:
    """The file `events.jsonl`. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._broken = False
        self._cut_off = False

    def write(self, event: str, boot: str = "", **fields: Any) -> None:
        """Append one event; a field that is None is written as null."""
        record = {"ts": time.time(), "boot": boot, "event": event, **fields}
        data = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._append(data)
            except OSError as failed:
                self._report(failed)
            else:
                self._broken = False

    def make_room(self) -> None:
        """Make the file ready for the events of a boot.

        Drops the oldest events when the file has grown past MAX_BYTES. The new file takes the old
        one's place by rename, so a reader never sees half of it. Then takes room at the end of
        the file, which nobody else can fill.
        """
        with self._lock:
            try:
                if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
                    self._keep_tail()
                descriptor = self._open()
            except OSError as failed:
                self._report(failed)
                return
            reserve(descriptor, os.fstat(descriptor).st_size, RESERVED_BYTES)
            os.close(descriptor)

    def is_full(self) -> bool:
        """Whether nothing else can be written into the file's directory."""
        try:
            free = os.statvfs(self._path.parent)
        except OSError:
            return False
        return free.f_bavail * free.f_frsize < LEAST_FREE_BYTES

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self._path, flags, 0o644)
        # The sidecar reads as another user, whatever the umask of this container.
        os.fchmod(descriptor, 0o644)
        return descriptor

    def _append(self, data: bytes) -> None:
        descriptor = self._open()
        try:
            if self._cut_off:
                data = b"\n" + data
            written = os.write(descriptor, data)
        finally:
            os.close(descriptor)
        # A full disk can take a part of a line; the next event must not continue that line.
        self._cut_off = written < len(data)

    def _keep_tail(self) -> None:
        data = self._path.read_bytes()[-KEPT_BYTES:]
        _cut, _newline, whole_lines = data.partition(b"\n")
        replacement = self._path.with_suffix(".new")
        replacement.write_bytes(whole_lines)
        replacement.chmod(0o644)
        replacement.replace(self._path)

    def _report(self, failed: OSError) -> None:
        if not self._broken:
            say(f"events are lost: {self._path} cannot be written: {failed.strerror}")
        self._broken = True


def reserve(descriptor: int, start: int, length: int) -> None:
    """Take room for a file that it will grow into; it keeps its size.

    Where there is no such call, or no room, the file grows as any other.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "fallocate"):
        offset, size = ctypes.c_int64(start), ctypes.c_int64(length)
        libc.fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, offset, size)
