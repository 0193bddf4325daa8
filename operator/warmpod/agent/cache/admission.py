"""Takes over what a pod offers: copied and verified, and there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from warmpod.compilecache import entry as entries
from warmpod.compilecache import layout
from warmpod.compilecache.entry import Entry, EntryError
from warmpod.quantity import human


def admit(offer: Path, key: str, published: Path, most_bytes: int) -> Entry:
    """Publish a copy of the offer under its key. What failed may leave a part of it there, under a
    name that begins in layout.PARTIAL. Raises EntryError for an offer that is none, OSError."""
    found = entries.read(offer)
    if found.key != key:
        raise EntryError(f"it is an entry for {found.key}")
    if found.bytes > most_bytes:
        more = f"{human(found.bytes)} are more than compileCache.size, {human(most_bytes)}"
        raise EntryError(more)
    partial = published / f"{layout.PARTIAL}{offer.name}"
    entries.copy(found, partial)
    _flush(partial)
    partial.rename(published / key)
    _flush_names(published)
    return found


def _flush(directory: Path) -> None:
    """Have the disk hold it before its name says that it is whole."""
    for folder, _, names in os.walk(directory):
        for name in names:
            _sync(Path(folder) / name, os.O_RDONLY)
        _flush_names(Path(folder))


def _flush_names(directory: Path) -> None:
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
