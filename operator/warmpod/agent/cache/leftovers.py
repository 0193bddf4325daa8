"""Stores of compiled code whose agent was killed together with its WarmModel, or whose node was off
when that was deleted. The next agent of the namespace that keeps such a store removes them."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from warmpod.agent.disk.ages import Ages
from warmpod.agent.disk.locks import try_locked
from warmpod.agent.disk.untrusted import Bin

log = logging.getLogger(__name__)

# That no agent has touched a store for so long while the node ran. Nobody can tell a store that is
# left over from one whose node takes no pods of its model at present; that one costs a slow start.
STALE_SECONDS = 24 * 3600.0


class Leftovers:
    """`stores` has those of all WarmModels of the namespace, by uid."""

    def __init__(self, stores: Path, uid: str) -> None:
        self._stores = stores
        self._own = stores / uid
        # One agent's own; what is in it when that is killed is left over like the rest.
        self._bin = Bin(stores / f".removing-{uid}")
        self._ages = Ages()

    def look(self) -> None:
        """Say that this agent lives, and remove what is left over. Raises OSError."""
        os.utime(self._own)
        now = self._own.stat().st_mtime
        self._ages.look(now, time.clock_gettime(time.CLOCK_MONOTONIC))
        for store in self._stores.iterdir():
            if store in (self._own, self._bin.path) or not store.is_dir():
                continue
            if self._ages.of(store.lstat().st_mtime) > STALE_SECONDS and not _is_held(store):
                log.info("no agent has kept %s for a day: removed", store)
                self._bin.throw(store)
        self._bin.empty()

    def remove_own(self) -> None:
        """Unless another agent of the WarmModel is still at it. What was in it is gone already."""
        with suppress(OSError):
            self._own.rmdir()


def _is_held(store: Path) -> bool:
    with try_locked(store) as free:
        return not free
