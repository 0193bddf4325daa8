"""Hold files in the page cache, and measure how much of them is really there.

Two ways to measure, because none works everywhere:

* `mincore` counts pages in memory whoever read them. The kernel answers "all resident" to a
  process that neither owns nor may write the file (mm/mincore.c, can_do_mincore), so it is only
  asked where the answer is true.
* Otherwise the resident size of our own mapping (`Rss` in /proc/self/smaps): reclaim takes a
  page out of every mapping before it frees it. This counts only pages that we mapped ourselves,
  so it can be too low but never too high. (`preadv2` with RWF_NOWAIT would be a third way, but
  overlayfs, where image volumes live, and tmpfs refuse it with EOPNOTSUPP.)
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from warmpod.agent.residency import system
from warmpod.weights.hashing import Watch

# One system call covers so many bytes: short enough to stop between two, long enough not to count.
CHUNK_BYTES = 256 * 1024 * 1024
SMAPS = Path("/proc/self/smaps")
_RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")
# mlock without CAP_IPC_LOCK fails with one of these when RLIMIT_MEMLOCK is used up (mlock(2)).
LOCK_REFUSED = (errno.ENOMEM, errno.EPERM, errno.EAGAIN)


@dataclass(frozen=True)
class Measurement:
    """Bytes in memory of bytes needed; whether the kernel promised to keep all of them; whether
    the count can be trusted."""

    resident: int
    total: int
    locked: bool
    trusted: bool

    @property
    def complete(self) -> bool:
        return self.trusted and self.resident >= self.total


class Identity(NamedTuple):
    """A mapping belongs to a file, not to a name: a replaced file is mapped anew. So is one that
    was written to: where it was cut short and filled again, the kernel has taken its pages out of
    the mapping, and has locked none of those that came."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, facts: os.stat_result) -> Identity:
        times = facts.st_mtime_ns, facts.st_ctime_ns
        return cls(facts.st_dev, facts.st_ino, facts.st_size, *times)


class HeldFile:
    """One mapped file; `resident` of its bytes were in memory when they were last counted."""

    def __init__(self, descriptor: int, identity: Identity, mincore_is_true: bool) -> None:
        self.identity = identity
        self.length = identity.size
        self.mincore_is_true = mincore_is_true
        self.locked = False
        self.populated = False
        self.resident = 0
        self.address = system.map_shared(descriptor, self.length)

    def chunks(self) -> Iterator[tuple[int, int]]:
        for offset in range(0, self.length, CHUNK_BYTES):
            yield self.address + offset, min(CHUNK_BYTES, self.length - offset)

    def lock(self, watch: Watch) -> bool:
        """Lock all pages; False when this process may not lock so much."""
        for address, length in self.chunks():
            try:
                system.lock(address, length)
            except OSError as error:
                if error.errno in LOCK_REFUSED:
                    return False
                raise
            watch(length)
        self.locked = True
        return True

    def populate(self, watch: Watch) -> None:
        for address, length in self.chunks():
            try:
                system.populate(address, length)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                return  # Linux before 5.14 does not know the advice; `populated` stays false
            watch(length)
        self.populated = True

    def pages_in_core(self) -> int:
        return sum(system.pages_in_core(address, length) for address, length in self.chunks())

    def close(self) -> None:
        system.unmap(self.address, self.length)


class Holder:
    """Keeps a set of files in memory. Used by one thread at a time."""

    def __init__(self) -> None:
        self._held: dict[Path, HeldFile] = {}

    def map(self, paths: Iterable[Path]) -> None:
        """Watch exactly these files, without reading them. Raises OSError when one is missing."""
        wanted = list(paths)
        for path in self._held.keys() - set(wanted):
            self._held.pop(path).close()
        for path in wanted:
            self._map(path)

    def load(self, watch: Watch) -> None:
        """Bring the mapped files into memory. Raises OSError when one cannot be read."""
        for held in self._held.values():
            # That all was there is what was measured: pages can leave a locked mapping, too.
            if held.locked and held.resident == held.length:
                watch(held.length)
            elif not held.lock(watch):
                held.populate(watch)

    def measure(self) -> Measurement:
        files = list(self._held.values())
        for held, pages in zip(files, _own_resident_pages(files), strict=True):
            in_core = held.pages_in_core() if held.mincore_is_true else pages
            held.resident = min(in_core * system.PAGE_BYTES, held.length)
        return Measurement(
            resident=sum(held.resident for held in files),
            total=sum(held.length for held in files),
            locked=all(held.locked for held in files),
            trusted=all(held.mincore_is_true or held.locked or held.populated for held in files),
        )

    def close(self) -> None:
        for held in self._held.values():
            held.close()
        self._held.clear()

    def _map(self, path: Path) -> None:
        """Map the file that has this name now; an empty one has nothing to map."""
        with path.open("rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
            identity = Identity.of(facts)
            held = self._held.get(path)
            if held is not None and held.identity == identity:
                return
            if held is not None:
                self._held.pop(path).close()
            if facts.st_size:
                truth = mincore_tells_the_truth(path, facts)
                self._held[path] = HeldFile(file.fileno(), identity, truth)


def mincore_tells_the_truth(path: Path, facts: os.stat_result) -> bool:
    """The kernel's own rule: owner (or CAP_FOWNER over it), or allowed to write."""
    return (
        facts.st_uid == os.geteuid()
        or system.has_capability(system.CAP_FOWNER)
        or os.access(path, os.W_OK, effective_ids=True)
    )


def _own_resident_pages(files: list[HeldFile]) -> list[int]:
    """Pages of each mapping that are mapped into this process."""
    pages = [0] * len(files)
    if all(held.mincore_is_true for held in files):
        return pages  # not needed, and walking the page tables is not free
    index: int | None = None
    with SMAPS.open() as smaps:
        for line in smaps:
            if found := _RANGE.match(line):
                index = _index_of(int(found[1], 16), files)
            elif index is not None and line.startswith("Rss:"):
                pages[index] += int(line.split()[1]) * 1024 // system.PAGE_BYTES
    return pages


def _index_of(start: int, files: list[HeldFile]) -> int | None:
    """A mapping that is locked in part appears as several neighbouring ranges."""
    for index, held in enumerate(files):
        if held.address <= start < held.address + held.length:
            return index
    return None
