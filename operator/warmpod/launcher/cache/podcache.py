"""The compile cache of one pod: prepared before the first boot, judged by what the engine says of
it, and offered to others when a boot that compiled has become warm.

Only the engine's own line proves a hit. Nothing here may keep an engine from starting: what fails
is said, and costs a start that compiles.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from warmpod.compilecache.entry import Entry, EntryError
from warmpod.compilecache.layout import Store
from warmpod.launcher.cache import store as cachestore
from warmpod.launcher.cache.directory import CacheDirectory, image_homes
from warmpod.launcher.cache.state import STATE_FILE, Start, State, load, save, start
from warmpod.launcher.cache.store import Outcome, StoreClient, factors_of
from warmpod.launcher.console import say
from warmpod.launcher.invocation.command import Command
from warmpod.launcher.log.stages import Stage

KEPT_BY_POD = "each pod compiles for itself"
NOTHING_USED = "the engine found nothing in it that it can use"
# Each comes after all parts of a model, which are compiled one by one: an encoder, a draft.
_ALL_COMPILED = ("kv_size", "engine_ready", "ready")


@dataclass(frozen=True)
class CacheOptions:
    """What the command line says about it."""

    directory: Path
    store: Path | None = None
    """The root; without one the pod keeps its caches to itself."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What only the operator knows: `image` and `model`, as in Factors."""


class NoCompileCache:
    """What the launcher does without a directory for caches: nothing."""

    def prepare(self) -> None:
        """Before the first boot."""

    def boot_starts(self, boot: str) -> None:
        """Of a boot that others are compared with nothing is told."""

    def hear(self, stage: Stage) -> None:
        """The boot has passed a stage. Called by the threads that read its output."""

    def boot_is_warm(self, boot: str) -> None:
        """May take long; called by a thread that has nothing else to do."""

    def boot_ended(self, boot: str, how: str, blamed: bool) -> None:
        """`blamed`: what it found in its cache may be why."""


class CompileCache(NoCompileCache):
    """Safe to use from several threads."""

    def __init__(
        self,
        directory: CacheDirectory,
        open_store: Callable[[], StoreClient | None],
        run_dir: Path,
        tell: Callable[..., Any],
    ) -> None:
        self._directory = directory
        self._empty = directory.is_empty()  # before any other process writes there
        self._open_store = open_store
        self._store: StoreClient | None = None
        self._path = run_dir / STATE_FILE
        self._tell = tell
        self._lock = threading.Lock()
        self._state = State()
        self._boot = ""  # the one that runs
        self._hit = self._compiled = self._missed = False
        self._life = 0  # how often the directory was emptied

    def prepare(self) -> None:
        with self._lock:
            try:
                self._store = self._open_store()
                self._begin(load(self._path))
            except (OSError, ValueError) as failed:
                say(f"the compile cache cannot be prepared: {failed}")

    def boot_starts(self, boot: str) -> None:
        with self._lock:
            self._boot = boot
            self._hit = self._compiled = self._missed = False
            if self._state.key:
                self._try()

    def hear(self, stage: Stage) -> None:
        if not self._directory.holds("VLLM_CACHE_ROOT"):
            return
        with self._lock:
            if stage.name == "aot_hit":
                self._hit = True
                self._try()
            elif stage.name == "aot_fail":
                self._miss(f"the engine cannot load it: {stage.detail}")
            elif stage.name == "compile":
                self._compiled = True
            elif self._state.key and self._used_nothing(stage):
                self._miss(NOTHING_USED)

    def _used_nothing(self, stage: Stage) -> bool:
        return stage.name in _ALL_COMPILED and self._compiled and not self._hit

    def boot_is_warm(self, boot: str) -> None:
        with self._lock:
            # What was stored is proven: if a later boot dies, that is not its fault.
            self._change(trying="", key="")
            store, wanted = self._store, self._state.unpublished
        if store and wanted and store.takes_offers():
            self._offer(boot, store)

    def boot_ended(self, boot: str, how: str, blamed: bool) -> None:
        with self._lock:
            self._boot = ""
            if self._state.trying != boot:
                return
            if blamed:
                self._set_aside(f"boot {boot} ended before it was warm: {how}")
            else:
                self._change(trying="")

    def _begin(self, before: State | None) -> None:
        """Raises OSError."""
        how = start(before, self._empty)
        self._state = before or State(foreign=how is Start.KEEP)
        if how is Start.FILL:
            self._fill()
        elif how is Start.SET_ASIDE:
            self._set_aside(f"boot {self._state.trying} ended with its container")
        elif how is Start.COMPILE:
            self._report(Outcome("set-aside", "an earlier boot of this pod died with it"))
        else:
            self._report(Outcome("kept"))
        self._change()

    def _fill(self) -> None:
        began = time.monotonic()
        self._change(filling=True)
        if not self._empty:
            self._directory.clear()
        outcome = self._look_up()
        filled = outcome.name == "filled"
        if outcome.key and not filled:
            self._directory.clear()
        if self._store and outcome.name == "damaged":
            self._store.complain(outcome.key, outcome.why)
        self._directory.seed()
        self._state = State(key=outcome.key if filled else "", unpublished=not filled)
        self._report(outcome, seconds=round(time.monotonic() - began, 3))

    def _look_up(self) -> Outcome:
        if not self._store:
            return Outcome("miss", KEPT_BY_POD)
        try:
            return self._store.fill(self._directory)
        except OSError as failed:
            why = f"what is stored cannot be copied: {failed.strerror}"
            return Outcome("miss", why, self._store.key)

    def _try(self) -> None:
        """From now on a crash may be the fault of what was compiled before."""
        if not self._state.foreign:
            self._change(trying=self._boot)

    def _miss(self, why: str) -> None:
        """The boot goes on, and compiles."""
        if self._missed:
            return
        self._missed = True
        if self._store and self._state.key:
            self._store.complain(self._state.key, why)
            self._report(Outcome("set-aside", why))
        else:
            self._report(Outcome("miss", why))
        self._change(key="", trying="", unpublished=not self._state.foreign)

    def _set_aside(self, why: str) -> None:
        if self._store and self._state.key:
            self._store.complain(self._state.key, why)
        self._life += 1
        try:
            self._directory.clear()
        except OSError as failed:
            say(f"the compile cache cannot be emptied: {failed}")
        self._report(Outcome("set-aside", why))
        self._state = State(refused=True, unpublished=True)
        self._change()

    def _offer(self, boot: str, store: StoreClient) -> None:
        life = self._life
        for attempt in range(cachestore.AGENT_ATTEMPTS):
            try:
                entry = store.offer(self._directory, lambda: self._life == life)
            except PermissionError as refused:
                if not attempt:
                    say(f"the compile cache is not offered yet: {refused}")
                time.sleep(cachestore.AGENT_SECONDS)
                if self._boot != boot:
                    return
            except (EntryError, OSError) as failed:
                say(f"the compile cache is not offered: {failed}")
                return
            else:
                self._note_offer(boot, entry)
                return

    def _note_offer(self, boot: str, entry: Entry | None) -> None:
        if entry:
            size = {"files": len(entry.files), "bytes": entry.bytes}
            self._tell("cache-offered", boot, key=entry.key, **size)
            with self._lock:
                self._change(unpublished=False)

    def _report(self, outcome: Outcome, **facts: float) -> None:
        key = outcome.key or (self._store.key if self._store else "")
        if outcome.files:
            facts |= {"files": outcome.files, "bytes": outcome.bytes}
        self._tell("cache", self._boot, outcome=outcome.name, key=key, why=outcome.why, **facts)
        if outcome.why and self._store:
            say(f"compile cache: {outcome.name}: {outcome.why}")

    def _change(self, **fields: Any) -> None:
        self._state = replace(self._state, **fields)
        try:
            save(self._path, self._state)
        except OSError as failed:
            say(f"what became of the compile cache cannot be written down: {failed}")


def compile_cache(
    options: CacheOptions | None, command: Command, run_dir: Path, tell: Callable[..., Any]
) -> NoCompileCache:
    """`command` is that of the boots; `tell` writes an event."""
    if options is None:
        return NoCompileCache()
    root, facts, baked = options.store, options.facts, Store(cachestore.BAKED)

    def open_store() -> StoreClient | None:
        if root is None and not baked.published.exists():
            return None
        store = Store(root) if root else None
        return StoreClient(store, baked, factors_of(command, facts))

    directory = CacheDirectory(options.directory, command.environment, image_homes())
    return CompileCache(directory, open_store, run_dir, tell)
