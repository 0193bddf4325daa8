"""The copies of weights on a node, in memory or on disk, and who still needs them.

    <root>/<key>/                   one copy of one set of weights, shared by all who name the key
    <root>/.refs/<key>/<model uid>  that WarmModel needs it, and since when (nanoseconds, and later
                                    than what it needed before); flock shared by its living agents,
                                    which touch it every minute
    <root>/.fill/<key>              flock of the one agent that writes the copy
    <root>/.lock                    flock for every change to refs and removals

An engine's launcher holds locks on the copy for as long as it lives (warmpod.inuse), so a copy that
an engine has mounted is told from one that nobody uses.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from warmpod.agent.disk.ages import Ages
from warmpod.agent.disk.locks import try_lock
from warmpod.agent.disk.nolinks import opened, refuse_links
from warmpod.protocol import RECEIPT_NAME, USERS_LOCK

log = logging.getLogger(__name__)

LOCK_RETRY_SECONDS = 0.5
# A ref that no living agent holds, and that none has touched for so long while the node ran, was
# left by an agent that was killed together with its WarmModel. An agent that only restarts is back
# sooner: the kubelet's longest crash back-off is 5 minutes (MaxContainerBackOff), the rest is room
# for the pull of a new agent image.
STALE_SECONDS = 900.0


class NodeCopies:
    """One agent's view of the copies that its WarmModel needs below one root."""

    def __init__(self, root: Path, model_uid: str, keys: Iterable[str]) -> None:
        self._root = root
        self._uid = model_uid
        self._keys = frozenset(keys)
        self._refs: dict[str, int] = {}
        self._given_up: set[str] = set()
        self._ages = Ages()

    def directory(self, key: str) -> Path:
        return self._root / key

    def join(self) -> None:
        """Say that this WarmModel needs its copies, and that its agent lives; then remove copies
        that nobody needs. At least once a minute, also while one is being brought. Its own refs
        come first, so that an agent that was away for long does not remove what is its own."""
        own = (".fill", ".refs", *self._keys, *(f".refs/{key}" for key in self._keys))
        refuse_links(self._root / name for name in own)
        (self._root / ".fill").mkdir(mode=0o755, parents=True, exist_ok=True)
        with self._locked():
            for key in self._keys:
                self._hold(key)
                self.directory(key).mkdir(mode=0o755, exist_ok=True)
                _make_users_lock(self.directory(key))
            self._drop_stale_refs()
            for key in self._copies():
                self._remove_unneeded(key)

    def drop_superseded(self) -> None:
        """Give up what earlier revisions of this WarmModel needed and no living agent holds. What
        a later one needs stays, also while its agent only restarts."""
        with self._locked():
            refs = self._own_refs()
            latest = max((_since(ref) for ref in refs if ref.parent.name in self._keys), default=0)
            for ref in refs:
                if _since(ref) < latest and not _is_held(ref):
                    self._drop(ref)

    def leave(self, *, forced: bool) -> bool:
        """The WarmModel is gone: give up all that it needed. False while an engine still uses a
        copy that nobody else needs; `forced` takes its files away all the same: what it has open
        stays until it closes it."""
        with self._locked():
            for ref in self._own_refs():
                self._given_up.add(ref.parent.name)
                ref.unlink()
            self.close()
            removed = {key for key in self._given_up if self._remove_unneeded(key, forced=forced)}
            self._given_up -= removed
            return not self._given_up

    def close(self) -> None:
        """This agent ends; the refs stay for the next one."""
        while self._refs:
            os.close(self._refs.popitem()[1])

    @contextmanager
    def writing(self, key: str, pause: Callable[[float], None]) -> Iterator[None]:
        """Be the one writer of a copy. `pause` sleeps, and raises when the process stops."""
        with os.fdopen(opened(self._root / ".fill" / key), "w") as file:
            while not try_lock(file.fileno(), fcntl.LOCK_EX):
                pause(LOCK_RETRY_SECONDS)
            yield  # closing the file gives the lock back

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Held for milliseconds, or while a copy is removed; so waiting needs no way out."""
        with os.fdopen(opened(self._root / ".lock"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _hold(self, key: str) -> None:
        path = self._root / ".refs" / key / self._uid
        held = self._refs.get(key)
        # On a volume that other nodes share, one of them may have removed the file.
        if held is not None and os.fstat(held).st_nlink == 0:
            os.close(self._refs.pop(key))
        if key not in self._refs:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._refs[key] = opened(path)
            try_lock(self._refs[key], fcntl.LOCK_SH)
        # On a full disk it may be a later time that succeeds.
        if not os.fstat(self._refs[key]).st_size:
            os.write(self._refs[key], str(self._next_since()).encode())
        os.utime(self._refs[key])

    def _next_since(self) -> int:
        """After all that this WarmModel needed before, also where the clock was set back."""
        return max([time.time_ns(), *(_since(ref) + 1 for ref in self._own_refs())])

    def _own_refs(self) -> list[Path]:
        return sorted((self._root / ".refs").glob(f"*/{self._uid}"))

    def _drop_stale_refs(self) -> None:
        self._ages.look(self._file_system_time(), time.clock_gettime(time.CLOCK_MONOTONIC))
        for ref in sorted((self._root / ".refs").glob("*/*")):
            # Where locks do not reach other nodes, one of them may have removed it just now.
            with suppress(FileNotFoundError):
                if not _is_held(ref) and self._ages.of(ref.stat().st_mtime) > STALE_SECONDS:
                    log.info("no agent has held %s for a quarter of an hour: dropped", ref)
                    self._drop(ref)

    def _file_system_time(self) -> float:
        lock = self._root / ".lock"
        os.utime(lock)
        return lock.stat().st_mtime

    def _drop(self, ref: Path) -> None:
        """Unless an engine still uses the copy: then the ref keeps it for a later look."""
        key = ref.parent.name
        others = any(other != ref for other in ref.parent.iterdir())
        if others or not _in_use(self.directory(key)):
            ref.unlink()
            self._remove_unneeded(key)

    def _copies(self) -> list[str]:
        """Copies with content. The kubelet makes an empty directory for an engine pod that comes
        before its agent; that pod has mounted it, so it must stay the same directory."""
        return sorted(
            path.name
            for path in self._root.iterdir()
            if not path.name.startswith(".") and path.is_dir() and _has_content(path)
        )

    def _remove_unneeded(self, key: str, *, forced: bool = False) -> bool:
        """False when nobody needs the copy and it is there all the same, because an engine
        uses it."""
        refs = self._root / ".refs" / key
        if refs.is_dir() and any(refs.iterdir()):
            return True
        with _alone_in(self.directory(key)) as alone:
            if not alone and not forced:
                return False
            _empty(self.directory(key))
            if alone:
                (self.directory(key) / USERS_LOCK).unlink(missing_ok=True)
                with suppress(FileNotFoundError):
                    self.directory(key).rmdir()
        if refs.is_dir():
            refs.rmdir()
        (self._root / ".fill" / key).unlink(missing_ok=True)
        return True


def _make_users_lock(directory: Path) -> None:
    """Once for the life of the directory: a lock belongs to an inode, not to a name."""
    with suppress(FileExistsError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(directory / USERS_LOCK, flags)
        os.fchmod(descriptor, 0o644)  # whatever the umask is; engines run as any user
        os.close(descriptor)


def _has_content(directory: Path) -> bool:
    return any(path.name != USERS_LOCK for path in directory.iterdir())


def _empty(directory: Path) -> None:
    """But for the file that engines may have locked, where they still use the directory."""
    # The first to go is what engines wait for, so that none starts on a half-removed copy.
    (directory / RECEIPT_NAME).unlink(missing_ok=True)
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.name == USERS_LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def _alone_in(directory: Path) -> Iterator[bool]:
    """Whether nobody uses the copy, and nobody begins to meanwhile."""
    with ExitStack() as held:
        yield _lock_alone(held, directory, os.O_RDONLY | os.O_DIRECTORY) and _lock_alone(
            held, directory / USERS_LOCK, os.O_RDWR
        )


def _lock_alone(held: ExitStack, path: Path, flags: int) -> bool:
    """Also true of what is not there. NFS wants a file open for writing for such a lock; whoever
    may not write it has no right to remove the copy either."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except PermissionError:
        return False
    held.callback(os.close, descriptor)
    return try_lock(descriptor, fcntl.LOCK_EX)


def _in_use(directory: Path) -> bool:
    with _alone_in(directory) as alone:
        return not alone


def _since(ref: Path) -> int:
    text = ref.read_text()
    return int(text) if text.isdecimal() else 0


def _is_held(ref: Path) -> bool:
    with ref.open("r+") as file:
        return not try_lock(file.fileno(), fcntl.LOCK_EX)
