"""Names of the agent's own on a volume that others may write to.

Who writes to a claim could put a link in place of one of them, and have the agent, which is root,
write to or remove what is mounted beside it. A link that is put there between the look and the use
is still followed; it has to come within microseconds.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path


def refuse_links(paths: Iterable[Path]) -> None:
    """Raises OSError (ELOOP) when one of them is a link."""
    for path in paths:
        if path.is_symlink():
            raise OSError(errno.ELOOP, "is a link and could lead anywhere: remove it", str(path))


def opened(path: Path) -> int:
    """A descriptor for reading and writing; the file is made if there is none. Raises OSError."""
    refuse_links([path])
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
