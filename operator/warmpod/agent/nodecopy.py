"""The copies of weights in a node's memory, and who still needs them.

    <root>/<key>/                   one copy of one set of weights, shared by all who name the key
    <root>/.refs/<key>/<model uid>  that WarmModel needs it
    <root>/.fill/<key>              flock of the one agent that writes the copy
    <root>/.lock                    flock for every change to refs and removals

All of it lives in tmpfs, so a node restart forgets everything at once.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from warmpod.protocol import RECEIPT_NAME

LOCK_RETRY_SECONDS = 0.5


class NodeCopy:
    """One agent's view of its key below the root."""

    def __init__(self, root: Path, key: str, model_uid: str) -> None:
        self._root = root
        self._key = key
        self._uid = model_uid
        self.directory = root / key

    def join(self) -> None:
        """Say that this WarmModel needs the copy, then remove copies that nobody needs."""
        (self._root / ".fill").mkdir(mode=0o755, parents=True, exist_ok=True)
        with self._locked():
            refs = self._root / ".refs" / self._key
            refs.mkdir(mode=0o755, parents=True, exist_ok=True)
            (refs / self._uid).touch(mode=0o644)
            self.directory.mkdir(mode=0o755, exist_ok=True)
            for name in self._copies():
                if not self._needed(name):
                    self._remove(name)

    def leave(self) -> None:
        """The WarmModel is gone: give up all that it needed, under this key and earlier ones."""
        with self._locked():
            self._drop_refs(self._ref_keys())

    def drop_superseded(self) -> None:
        """Give up what earlier revisions of this WarmModel needed."""
        with self._locked():
            self._drop_refs([key for key in self._ref_keys() if key != self._key])

    @contextmanager
    def writing(self, pause: Callable[[float], None]) -> Iterator[None]:
        """Be the one writer of the copy. `pause` sleeps, and raises when the process stops."""
        with (self._root / ".fill" / self._key).open("w") as file:
            while not _try_lock(file.fileno()):
                pause(LOCK_RETRY_SECONDS)
            yield  # closing the file gives the lock back

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Held for milliseconds, or while a copy is removed; so waiting needs no way out."""
        with (self._root / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _drop_refs(self, keys: list[str]) -> None:
        for key in keys:
            (self._root / ".refs" / key / self._uid).unlink(missing_ok=True)
            if not self._needed(key):
                self._remove(key)

    def _ref_keys(self) -> list[str]:
        return sorted(ref.parent.name for ref in (self._root / ".refs").glob(f"*/{self._uid}"))

    def _copies(self) -> list[str]:
        """Copies with content. The kubelet makes an empty directory for an engine pod that comes
        before its agent; that pod has mounted it, so it must stay the same directory."""
        return sorted(
            path.name
            for path in self._root.iterdir()
            if not path.name.startswith(".") and path.is_dir() and any(path.iterdir())
        )

    def _needed(self, key: str) -> bool:
        refs = self._root / ".refs" / key
        return refs.is_dir() and any(refs.iterdir())

    def _remove(self, key: str) -> None:
        directory = self._root / key
        if directory.is_dir():
            # The first to go is what engines wait for, so that none starts on a half-removed copy.
            (directory / RECEIPT_NAME).unlink(missing_ok=True)
            shutil.rmtree(directory)
        refs = self._root / ".refs" / key
        if refs.is_dir():
            refs.rmdir()
        (self._root / ".fill" / key).unlink(missing_ok=True)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
