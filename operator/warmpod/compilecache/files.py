"""Opens files below a directory that somebody else may have written, and may be writing.

Each component of a path is opened below the descriptor of the one before and never followed if it
is a link, so nothing outside the directory is reached, whatever is moved meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_PATH = 1024
DEEPEST_PATH = 32
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe without a writer must not block whoever opens it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_directory(path: str | Path, below: int | None = None) -> int:
    """A descriptor of a directory that is no link. Raises OSError."""
    return os.open(path, _DIRECTORY, dir_fd=below)


@contextmanager
def directory(path: str | Path) -> Iterator[int]:
    """The same, closed in the end."""
    descriptor = open_directory(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(path: str, below: int) -> int:
    """A descriptor of the file at a plain path. Raises OSError: EINVAL if it is no regular file."""
    parent, _, name = path.rpartition("/")
    folder = _open_folder(parent, below)
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def _open_folder(path: str, below: int) -> int:
    """A descriptor of the folder at a plain path, or with an empty one of `below` itself."""
    folder = open_directory(".", below)
    for name in path.split("/") if path else ():
        try:
            inner = open_directory(name, folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def is_plain(path: str) -> bool:
    """Whether it leads to something below, by names only, on any file system."""
    parts = path.split("/")
    try:
        lengths = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        return False
    return (
        len(path) <= LONGEST_PATH
        and len(parts) <= DEEPEST_PATH
        and all(0 < length <= 255 for length in lengths)
        and not any(part in (".", "..") or "\0" in part for part in parts)
    )


def walk(below: int) -> Iterator[str]:
    """Plain paths of the regular files below a directory, sorted within each folder.

    Links and special files are passed over, as is what vanishes meanwhile and what has a name
    that JSON cannot hold.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for name, is_folder in _listed(folder, below):
            path = f"{folder}/{name}" if folder else name
            if not is_plain(path):
                continue
            if is_folder:
                waiting.append(path)
            else:
                yield path


def _listed(folder: str, below: int) -> list[tuple[str, bool]]:
    """Folders and regular files with whether they are folders."""
    try:
        descriptor = _open_folder(folder, below)
    except OSError:
        return []
    try:
        with os.scandir(descriptor) as entries:
            return sorted(
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
            )
    except OSError:
        return []
    finally:
        os.close(descriptor)
