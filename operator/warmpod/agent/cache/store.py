"""The store of what one WarmModel's engines compile, on this node: who writes it is the agent.

Pods offer entries in a directory that they cannot list, and leave marks there about entries that
they have used. The agent copies what it could verify to where pods read, and removes the rest.

    <root>/published, incoming, set-aside      see warmpod.compilecache.layout
    <root>/published/.tmp-…                    an entry that is being copied
    <root>/.removing                           what is being removed
    <root> itself                              flock of the one agent that writes; two agents of a
                                               WarmModel can share a node

Nothing here may keep weights from being resident: what goes wrong is logged, and tried again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from warmpod.agent.cache.admission import admit
from warmpod.agent.cache.leftovers import Leftovers
from warmpod.agent.disk.locks import try_locked
from warmpod.agent.disk.untrusted import Bin
from warmpod.compilecache import layout
from warmpod.compilecache.entry import EntryError
from warmpod.compilecache.layout import Arrival, Store
from warmpod.quantity import human

log = logging.getLogger(__name__)

# What is neither an offer nor a mark is one that is still written, or was left by a pod that died.
UNFINISHED_SECONDS = 3600.0
# How long the WarmModel's end waits for a copy that is under way.
LEAVE_SECONDS = 5.0
# Of one look; a pod that leaves more is not waited for.
MOST_ARRIVALS = 1000


@dataclass(frozen=True)
class StoreState:
    """What the store held at the last look, and what has happened since the agent started."""

    entries: int = 0
    bytes: int = 0
    """Of the files of published entries and of those set aside."""
    admitted: int = 0
    refused: int = 0
    set_aside: int = 0
    removed: int = 0
    """Entries that went because the store was full."""


class CompileStore:
    """One agent's view of the store. `look` and `leave` may be called from different threads."""

    def __init__(
        self,
        root: Path,
        most_bytes: int,
        leftovers: Leftovers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = Store(root)
        self._most = most_bytes
        self._leftovers = leftovers
        self._clock = clock
        self._bin = Bin(root / ".removing")
        self._unfinished: dict[str, float] = {}
        self._measured = (0, 0)
        self._stopping = threading.Event()
        self._told = ""
        self.state = StoreState()

    def look(self) -> None:
        """Take in what pods have left, unless another agent is at it. Never raises."""
        try:
            self._look()
            if self._leftovers is not None:
                self._leftovers.look()
        except Exception as error:  # a cache must not end the agent that keeps the weights
            if repr(error) != self._told:
                log.exception("the store of compiled code cannot be looked after")
            self._told = repr(error)
        else:
            self._told = ""

    def leave(self) -> None:
        """Nobody needs the store any more: remove all of it. Never raises."""
        self._stopping.set()
        try:
            self._leave()
            if self._leftovers is not None:
                self._leftovers.remove_own()
        except Exception:  # as above
            log.exception("the store of compiled code cannot be removed")

    def stop(self) -> None:
        """The agent ends: a look that is under way ends with what it is at."""
        self._stopping.set()

    def _look(self) -> None:
        with try_locked(self._store.root) as alone:
            if not alone or self._stopping.is_set():
                return
            self._prepare()
            names = self._incoming()
            arrivals = [arrival for name in names if (arrival := layout.arrival(name))]
            unfinished = set(names).difference(arrival.name for arrival in arrivals)
            self._discard_unfinished(unfinished, crowded=len(names) == MOST_ARRIVALS)
            for arrival in sorted(arrivals, key=_turn):
                if self._stopping.is_set():
                    return
                self._take(arrival)
            self._make_room()
            self._bin.empty()

    def _leave(self) -> None:
        give_up_at = self._clock() + LEAVE_SECONDS
        while True:
            with try_locked(self._store.root) as alone:
                # By force in the end: what an engine or another agent has open stays until then.
                if alone or self._clock() > give_up_at:
                    for path in self._store.root.iterdir():
                        if path != self._bin.path:
                            self._bin.throw(path)
                    self._bin.empty()
                    return
            time.sleep(0.1)

    def _prepare(self) -> None:
        """The kubelet makes missing directories as root's, which engines of other users cannot
        write."""
        for path, mode in (
            (self._store.published, 0o755),
            (self._store.incoming, layout.INCOMING_MODE),
            (self._store.set_aside, 0o700),
        ):
            path.mkdir(exist_ok=True)
            path.chmod(mode)
        self._clear_partial()

    def _clear_partial(self) -> None:
        """What a copy that failed has left, or an agent that was killed: this one is alone."""
        for path in self._store.published.glob(f"{layout.PARTIAL}*"):
            self._bin.throw(path)

    def _incoming(self) -> list[str]:
        with os.scandir(self._store.incoming) as listed:
            return [each.name for each in islice(listed, MOST_ARRIVALS)]

    def _discard_unfinished(self, names: Iterable[str], *, crowded: bool) -> None:
        """What has been there for too long, or all where pods leave more than a look takes in."""
        now = self._clock()
        # By our own clock: what a pod says of times is not to be believed.
        self._unfinished = {name: self._unfinished.get(name, now) for name in names}
        for name, since in self._unfinished.items():
            if crowded or now - since > UNFINISHED_SECONDS:
                self._discard(name)

    def _discard(self, name: str) -> None:
        """A pod that goes on moving what is its own does not keep others waiting."""
        try:
            self._bin.throw(self._store.incoming / name)
        except OSError as error:
            log.warning("%s is not removed yet: %s", name, error)

    def _take(self, arrival: Arrival) -> None:
        published = self._store.published / arrival.key
        match arrival.kind:
            case layout.USED if published.is_dir():
                os.utime(published)
            case layout.BAD if published.is_dir():
                self._set_aside(arrival)
            case layout.OFFER if not published.exists():
                self._admit(self._store.incoming / arrival.name, arrival.key)
        self._discard(arrival.name)

    def _admit(self, offer: Path, key: str) -> None:
        try:
            found = admit(offer, key, self._store.published, self._most)
        except Exception as error:  # whatever a pod has made, it keeps no other offer waiting
            known = isinstance(error, (EntryError, OSError))
            log.warning("%s is not taken over: %s", offer.name, error, exc_info=not known)
            self._clear_partial()
            self.state = replace(self.state, refused=self.state.refused + 1)
        else:
            log.info("compile cache %s: %d files, %s", key, len(found.files), human(found.bytes))
            self.state = replace(self.state, admitted=self.state.admitted + 1)
            # Before the next one: what is sparse costs a pod nothing, and a copy of it is not.
            self._make_room()
            self._bin.empty()

    def _set_aside(self, mark: Arrival) -> None:
        """Out of the way of pods, and kept so that somebody can look at it."""
        why = ""
        with suppress(OSError):
            why = layout.read_mark(self._store.incoming, mark)
        target = self._store.set_aside / mark.key
        self._bin.throw(target)
        (self._store.published / mark.key).rename(target)
        (target / layout.WHY).write_text(why + "\n")
        log.warning("compile cache %s is set aside: %s", mark.key, why or "no reason given")
        self.state = replace(self.state, set_aside=self.state.set_aside + 1)

    def _make_room(self) -> None:
        """First goes what was set aside, then what was used least recently; the one that was used
        last stays."""
        if self._stamp() == self._measured:
            return
        aside = sorted(self._store.set_aside.iterdir(), key=_used_at)
        published = sorted(self._store.published.iterdir(), key=_used_at)
        sizes = {path: _size(path) for path in (*aside, *published)}
        removed = 0
        for path in (*aside, *published[:-1]):
            if sum(sizes.values()) <= self._most:
                break
            log.info("the store is full: %s goes, %s", path.name, human(sizes.pop(path)))
            self._bin.throw(path)
            removed += path.parent == self._store.published
        self.state = replace(
            self.state,
            entries=len(published) - removed,
            bytes=sum(sizes.values()),
            removed=self.state.removed + removed,
        )
        self._measured = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        """Changes with what is in the store: entries come and go, but never change."""
        return (_used_at(self._store.published), _used_at(self._store.set_aside))


def _turn(arrival: Arrival) -> tuple[bool, str]:
    """Marks before offers: a pod that offers a new entry says first that the old one is bad."""
    return arrival.kind == layout.OFFER, arrival.name


def _size(path: Path) -> int:
    folders = ((Path(folder), names) for folder, _, names in os.walk(path))
    return sum((folder / name).lstat().st_size for folder, names in folders for name in names)


def _used_at(path: Path) -> int:
    return path.lstat().st_mtime_ns
