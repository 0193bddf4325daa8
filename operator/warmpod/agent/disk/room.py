"""A file system without room is told from one that fails: other remedies help."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A full disk, and a full share of it.
FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def room(missing: Callable[[], Exception]) -> Iterator[None]:
    """Raises `missing()` in place of an OSError that says that there is no room."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise missing() from error
