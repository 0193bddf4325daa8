"""The weights that an engine needs complete before it starts.

The agent writes a receipt into a directory when its files are complete, and takes it away while
it puts one right. The launcher locks the directory for as long as it lives: agents remove no
directory that is locked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from warmpod.launcher.console import say


class Weights:
    """Directories, each known by the receipt that it will hold."""

    def __init__(self, receipts: Iterable[Path]) -> None:
        self._receipts = tuple(receipts)
        self._locks: dict[Path, int] = {}

    def missing(self) -> list[Path]:
        """Receipts that are not there, or whose directory cannot be locked at this moment."""
        return [path for path in self._receipts if not (self._lock(path.parent) and path.exists())]

    def gone(self) -> bool:
        """Whether a directory was removed before it was locked. Nobody can fill it any more; only
        a container that starts anew gets the next one of that name."""
        return any(os.fstat(descriptor).st_nlink == 0 for descriptor in self._locks.values())

    def _lock(self, directory: Path) -> bool:
        """Lock it unless it is locked already. The descriptor is kept for life."""
        if directory in self._locks:
            return True
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # an agent is about to remove it
            os.close(descriptor)
            return False
        except OSError as failed:
            say(f"{directory} cannot be locked, so agents do not see that it is used: {failed}")
        self._locks[directory] = descriptor
        return True
