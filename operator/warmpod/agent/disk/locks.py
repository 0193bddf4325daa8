"""Locks by which agents of a node know of each other. The kernel frees them with their process."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warmpod.compilecache.files import directory


def try_lock(descriptor: int, kind: int) -> bool:
    """`kind` is LOCK_EX or LOCK_SH. False if somebody else's lock is in the way."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Alone in a directory, as whoever changes a store of compiled code is; waits for it. Raises
    OSError."""
    with directory(root) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def try_locked(root: Path) -> Iterator[bool]:
    """The same without waiting; False if somebody else is there. Raises OSError."""
    with directory(root) as descriptor:
        yield try_lock(descriptor, fcntl.LOCK_EX)
