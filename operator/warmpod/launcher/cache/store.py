"""The launcher's side of a store: take an entry from it, offer one to it."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from warmpod.compilecache import command as commands
from warmpod.compilecache import entry as entries
from warmpod.compilecache import layout
from warmpod.compilecache.entry import Entry, EntryError, GoneError
from warmpod.compilecache.factors import Factors, is_key, key, why_missed
from warmpod.compilecache.layout import Store
from warmpod.launcher.cache.directory import CacheDirectory
from warmpod.launcher.cache.growth import measure
from warmpod.launcher.cache.hardware import hardware
from warmpod.launcher.console import say
from warmpod.launcher.invocation.command import Command

# Where an image of the engine has entries that were put into it.
BAKED = Path("/usr/share/warmpod/compile-cache")
# To say why there is no entry, so many of the newest are compared.
MOST_COMPARED = 20
REMOVED = "the entry was removed while it was read"
# An offer, with the copy that the agent makes of it, takes at most this part of what is free on the
# node's disk: the kubelet evicts pods when that runs out.
MOST_OF_FREE = 0.1
LEAST_PRIORITY = 19
# Between attempts, while the agent has not yet opened the store, in seconds.
AGENT_SECONDS = 15.0
AGENT_ATTEMPTS = 40


@dataclass(frozen=True)
class Outcome:
    """What came of looking for an entry: `filled`, `miss` or `damaged`."""

    name: str
    why: str = ""
    key: str = ""
    """Of the entry that was found; the directory holds it, or a part of it."""
    files: int = 0
    bytes: int = 0


def factors_of(command: Command, facts: Mapping[str, str]) -> Factors:
    """`facts` are what only the operator knows."""
    seen = hardware(command.environment)
    return Factors(
        image=facts.get("image", ""),
        model=facts.get("model", ""),
        gpu=seen.gpu,
        driver=seen.driver,
        cpu=seen.cpu,
        ranks=commands.ranks(command.argv),
        arguments=commands.arguments(command.argv),
        environment=commands.environment(command.environment),
    )


class StoreClient:
    """The stores, for one pod whose engine has these factors.

    `store` is that of the WarmModel, if it has one; `baked` is part of the engine's image, where it
    was put after its entries were made. So their image is not this one, but the image is proof that
    they were made with what it was built on.
    """

    def __init__(self, store: Store | None, baked: Store, factors: Factors) -> None:
        self._store = store
        self._baked = baked
        self._factors = factors
        self.key = key(factors)

    def fill(self, directory: CacheDirectory) -> Outcome:
        """Copy the entry for this engine, if there is a good one. Otherwise the directory may hold
        a part of it. Raises OSError if the directory cannot be written."""
        known: list[Factors] = []
        if self._store:
            if self._is_marked_bad(self._store):
                return Outcome("miss", "another pod could not use what is stored")
            outcome = _take(self._store.published / self.key, directory)
            if outcome:
                self._mark_used(outcome)
                return outcome
            known += [each.factors for each in _entries(self._store)]
        for each in _entries(self._baked):
            known.append(self._as_of_this_image(each.factors))
            if known[-1] == self._factors:
                return _take(each.directory, directory) or Outcome("miss", REMOVED)
        return Outcome("miss", why_missed(self._factors, known))

    def _as_of_this_image(self, baked: Factors) -> Factors:
        """Without a store the operator does not say which weights these are."""
        model = baked.model if self._factors.model else ""
        return replace(baked, image=self._factors.image, model=model)

    def complain(self, key: str, why: str) -> None:
        """Have the entry of this key set aside; nobody can do so in an image."""
        if key == self.key:
            self._mark(layout.BAD, why)

    def takes_offers(self) -> bool:
        """An image takes none."""
        return self._store is not None and self._store.incoming.is_dir()

    def offer(self, directory: CacheDirectory, still_good: Callable[[], bool]) -> Entry | None:
        """Copy the directory into the store, for the agent to publish. Nothing is offered that is
        not `still_good` in the end, or that another pod was faster with. Raises EntryError,
        OSError; PermissionError if no agent has opened the store yet."""
        assert self._store  # noqa: S101 - callers ask whether it takes offers
        if (self._store.published / self.key).exists() and not self._is_marked_bad(self._store):
            return None
        incoming = self._store.incoming
        _step_back()
        _check_room(incoming, measure([directory.path]).bytes)
        partial, offer = (incoming / name for name in layout.new_offer(self.key))
        entry = entries.write(
            directory.path, partial, self._factors, time.time(), directory.is_seed
        )
        if not still_good():
            shutil.rmtree(partial, ignore_errors=True)
            return None
        partial.rename(offer)
        return entry

    def _is_marked_bad(self, store: Store) -> bool:
        return (store.incoming / f"{layout.BAD}-{self.key}").exists()

    def _mark_used(self, outcome: Outcome) -> None:
        if outcome.name == "filled":
            self._mark(layout.USED)

    def _mark(self, kind: str, why: str = "") -> None:
        """A mark helps others; without it only they pay."""
        if self._store and self.takes_offers():
            try:
                layout.leave_mark(self._store.incoming, kind, self.key, why)
            except OSError as failed:
                say(f"the compile cache cannot be marked as {kind}: {failed}")


def _take(path: Path, directory: CacheDirectory) -> Outcome | None:
    """None if there is no such entry. Raises OSError if the directory cannot be written."""
    try:
        entry = entries.read(path)
        entries.unpack(entry, directory.path)
    except GoneError:
        return None
    except EntryError as damaged:
        if not path.exists():
            return Outcome("miss", REMOVED, path.name)
        return Outcome("damaged", f"what is stored is damaged: {damaged}", path.name)
    return Outcome("filled", "", entry.key, len(entry.files), entry.bytes)


def _entries(store: Store) -> Iterator[Entry]:
    """The newest first."""
    paths = []
    with suppress(OSError):
        found = [path for path in store.published.iterdir() if is_key(path.name)]
        paths = sorted(found, key=lambda path: -path.lstat().st_mtime)
    for path in paths[:MOST_COMPARED]:
        with suppress(EntryError):
            yield entries.read(path)


def _check_room(incoming: Path, size: int) -> None:
    """Raises EntryError, OSError."""
    disk = os.statvfs(incoming)
    if 2 * size > disk.f_bavail * disk.f_frsize * MOST_OF_FREE:
        raise EntryError(f"the node's disk has too little room for {2 * size} bytes more")


def _step_back() -> None:
    """Whatever this thread does, the engine's requests come first."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LEAST_PRIORITY)
