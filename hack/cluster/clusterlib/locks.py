"""Commands that change the cluster take turns."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import settings


@contextmanager
def only_one() -> Iterator[None]:
    """Two starts at once would take each other's half-made cluster for a failed one. Says whom it
    waits for."""
    path = settings.CACHE_DIR / "cluster.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not emptied when it is opened: it has the pid of who holds it.
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            print(f"Waiting for {path} (held by pid {holder}).", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
