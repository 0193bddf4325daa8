"""What the sidecar asks of the launcher: to end a boot whose warm-up failed.

The file is written by another user, so it may hold anything, at any moment.
"""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

LINE_CHARACTERS = 300
MAX_BYTES = 65536
# A file that cannot be understood may be half-written; after this long it is not (seconds).
GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class EndRequest:
    """Ends one boot and no other."""

    boot: str
    why: str


def parse(data: bytes) -> EndRequest | None:
    """None for anything but a request."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("boot"), str):
        return None
    why = " ".join(str(content.get("why", "")).split())
    return EndRequest(content["boot"], why[:LINE_CHARACTERS])


class EndRequests:
    """The file of requests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._doubtful_since: float | None = None

    def take(self, boot: str) -> EndRequest | None:
        """The request to end this boot, if there is one.

        It is removed, as is one that names another boot, which is over, and one that nobody can
        understand. One that cannot be removed does no harm: its boot ends only once.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            self._doubtful_since = None
            return None
        except OSError:
            self._remove(None)
            return None
        try:
            return self._take(descriptor, boot)
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int, boot: str) -> EndRequest | None:
        status = os.fstat(descriptor)
        request = parse(_read(descriptor)) if stat.S_ISREG(status.st_mode) else None
        if request is None and self._may_be_half_written():
            return None
        self._doubtful_since = None
        self._remove(status)
        return request if request is not None and request.boot == boot else None

    def _may_be_half_written(self) -> bool:
        now = time.monotonic()
        if self._doubtful_since is None:
            self._doubtful_since = now
        return now - self._doubtful_since < GRACE_SECONDS

    def _remove(self, read: os.stat_result | None) -> None:
        """Remove what was read, but not a newer request that took its place meanwhile."""
        try:
            if read is None or self._path.lstat().st_ino == read.st_ino:
                self._path.unlink()
        except OSError:
            return


def _read(descriptor: int) -> bytes:
    """Nothing when it cannot be read."""
    try:
        return os.read(descriptor, MAX_BYTES)
    except OSError:
        return b""
