"""Who uses a copy of the weights holds a lock on it, so that nobody removes it meanwhile.

By `flock`, for as long as the process lives, on two things:

* the copy's directory. It is there before anybody fills it, and who has it mounted has this one
  and no other; but Linux's NFS client locks directories for its own node only;
* the file USERS_LOCK in it, which agents make before the receipt and never replace. NFS passes
  locks of regular files on to its server, so all nodes see them; a shared one needs the file open
  for reading only, so a read-only mount will do (flock(2), "NFS details").

Who removes a copy must have both alone. Standard library only: the launcher uses it as well.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from warmpod.protocol import USERS_LOCK


class Use:
    """One process's use of the copy that `receipt` completes. `complain` is told what keeps others
    from seeing it."""

    def __init__(self, receipt: Path, complain: Callable[[str], None]) -> None:
        self._receipt = receipt
        self._complain = complain
        self._locks: dict[Path, int] = {}
        self._stale = False

    def complete(self) -> bool:
        """Whether the copy is complete and held. Its directory is held from the first call on."""
        # Twice: the file to lock comes before the receipt, so it may be there by now.
        return all(self._hold() and self._receipt.exists() for _ in range(2))

    def gone(self) -> bool:
        """Whether the directory was removed before it was held. Nobody can fill it any more; only
        a container that starts anew gets the next one of that name."""
        directory = self._locks.get(self._receipt.parent)
        return self._stale or (directory is not None and not self._is_linked(directory))

    def close(self) -> None:
        while self._locks:
            os.close(self._locks.popitem()[1])

    def _hold(self) -> bool:
        """False while there is no directory, or somebody is about to remove the copy. A copy that
        an earlier version made has no file to lock until an agent looks at it."""
        directory = self._receipt.parent
        if not self._lock(directory, os.O_DIRECTORY) or self.gone():
            return False
        return self._lock(directory / USERS_LOCK) or not (directory / USERS_LOCK).exists()

    def _lock(self, path: Path, flags: int = 0) -> bool:
        """Lock it unless it is locked already. The descriptor is kept until `close`."""
        if path in self._locks:
            return True
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
        except OSError as failed:
            self._note_missing(failed)
            return False
        # Between opening and locking it may have been removed; a directory then tells `gone`.
        if self._share(path, descriptor) and (flags or self._is_linked(descriptor)):
            self._locks[path] = descriptor
            return True
        os.close(descriptor)
        return False

    def _share(self, path: Path, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as failed:
            self._complain(f"{path} cannot be locked, so no agent sees that it is used: {failed}")
        return True

    def _is_linked(self, descriptor: int) -> bool:
        try:
            return os.fstat(descriptor).st_nlink > 0
        except OSError as failed:
            self._note_missing(failed)
            return False

    def _note_missing(self, failed: OSError) -> None:
        """On NFS, what another node removed is a stale handle here. Raises what is neither."""
        if failed.errno == errno.ESTALE:
            self._stale = True
        elif failed.errno != errno.ENOENT:
            raise failed
