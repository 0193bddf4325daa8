"""Removes trees that somebody else has made and may still be changing.

The agent is root without the right to pass over permissions (CAP_DAC_OVERRIDE), so it gives itself
those that it needs: as CAP_FOWNER allows, and on what a descriptor holds, never on a name that may
have come to mean something else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from secrets import token_hex

# Directories can lie in each other deeper than a path can say or a process has descriptors. So they
# are taken out of each other, one level with each pass.
MOST_PASSES = 10_000
BATCH = 1000


class Bin:
    """A directory that nobody else finds, in which trees are taken apart."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def throw(self, path: Path) -> None:
        """Take something away from where it is; nothing happens where nothing is."""
        with suppress(FileNotFoundError):
            self.path.mkdir(mode=0o700, exist_ok=True)
            with _opened(path.parent) as parent:
                self._take(path.name, parent)

    def empty(self) -> None:
        """What somebody goes on writing into stays for a later time."""
        left: set[str] = set()
        for _ in range(MOST_PASSES):
            names = set(os.listdir(self.path)) if self.path.is_dir() else set()
            if not names or names == left:
                break
            left = names
            for name in names:
                self._remove(name)
        with suppress(OSError):
            self.path.rmdir()

    def _take(self, name: str, parent: int) -> None:
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            with _opened(Path(name), parent):
                pass  # a directory that is to have another parent must be writable
        os.rename(name, self.path / token_hex(8), src_dir_fd=parent)

    def _remove(self, name: str) -> None:
        path = self.path / name
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        with _opened(path) as directory:
            while names := _first(directory):
                for each in names:
                    self._remove_below(directory, each)
        with suppress(OSError):  # ENOTEMPTY: its writer is still at it
            path.rmdir()

    def _remove_below(self, directory: int, name: str) -> None:
        try:
            os.unlink(name, dir_fd=directory)
        except IsADirectoryError:
            self._take(name, directory)


def _first(directory: int) -> list[str]:
    with os.scandir(directory) as found:
        return [each.name for each in islice(found, BATCH)]


@contextmanager
def _opened(path: Path, parent: int | None = None) -> Iterator[int]:
    """A directory that can then be read and written, whoever owns it. Raises OSError for what is
    none, a link to one included."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(path, os.O_PATH | flags, dir_fd=parent)
    try:
        mode = os.fstat(held).st_mode
        if mode & 0o700 != 0o700 or os.fstat(held).st_uid != os.geteuid():
            # For us, who are neither its owner nor of its group.
            os.chmod(f"/proc/self/fd/{held}", stat.S_IMODE(mode) | 0o777)  # noqa: S103
        directory = os.open(".", os.O_RDONLY | flags, dir_fd=held)
    finally:
        os.close(held)
    try:
        yield directory
    finally:
        os.close(directory)
