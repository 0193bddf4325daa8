"""A receipt says which content a file had when somebody read all of it.

It spares reading again only while size, modification time and inode are the same, and only until
the node restarts: content is never trusted because a file of that name exists, and what a disk
holds after a crash is not what a process saw before it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VERSION = 1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Nodes that share a volume all sign its receipt. The bound keeps years of restarts out of it.
MAX_BOOTS = 512


@dataclass(frozen=True, order=True)
class Seen:
    """A file as it was when its digest was computed; sizes in bytes, time in nanoseconds."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    sha256: str

    @classmethod
    def of(cls, path: str, facts: os.stat_result, sha256: str) -> Seen:
        return cls(path, facts.st_size, facts.st_mtime_ns, facts.st_ino, sha256)


class Receipt:
    """What is known of the files of one directory."""

    def __init__(self, files: Iterable[Seen] = ()) -> None:
        self._files = {seen.path: seen for seen in files}

    @property
    def files(self) -> tuple[Seen, ...]:
        return tuple(sorted(self._files.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Receipt) and self._files == other._files

    __hash__ = None  # type: ignore[assignment]

    def digest_of(self, path: str, facts: os.stat_result) -> str | None:
        """The digest of `path` if the file is still the one that was read."""
        seen = self._files.get(path)
        if seen is None or seen != Seen.of(path, facts, seen.sha256):
            return None
        return seen.sha256

    def knows(self, directory: Path, paths: Iterable[str]) -> bool:
        """Whether nothing of `paths` has to be read again. Raises OSError on a missing file."""
        return all(self.digest_of(path, (directory / path).stat()) for path in paths)

    def without(self, paths: Iterable[str]) -> Receipt:
        """The same, but these files have to be read again."""
        doubted = set(paths)
        return Receipt(seen for seen in self._files.values() if seen.path not in doubted)

    def save(self, path: Path) -> None:
        """Appears whole or not at all; readable by whoever waits for it. Nodes that signed a
        receipt of the same files before stay in it."""
        boot = boot_id()
        before = _read(path)
        signed = _boots(before) if _files(before) == list(self.files) else []
        document = {
            "version": VERSION,
            "verifier": "warmpod",
            "boots": [*(b for b in signed if b != boot), boot][-MAX_BOOTS:],
            "files": [asdict(seen) for seen in self.files],
        }
        temporary = path.with_name(path.name + ".new")
        temporary.write_text(json.dumps(document))
        temporary.chmod(0o644)
        temporary.rename(path)


def boot_id() -> str:
    """Another one after each start of the kernel; containers see the node's."""
    return BOOT_ID.read_text().strip()


def load(path: Path) -> Receipt:
    """An absent or unusable receipt is an empty one, and so is one that nobody signed since this
    node started: then everything is read again."""
    document = _read(path)
    return Receipt(_files(document) if boot_id() in _boots(document) else ())


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
        return document if document["version"] == VERSION else {}
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return {}


def _boots(document: dict[str, Any]) -> list[str]:
    boots = document.get("boots")
    return boots if isinstance(boots, list) else []


def _files(document: dict[str, Any]) -> list[Seen]:
    try:
        return sorted(Seen(**item) for item in document["files"])
    except (TypeError, KeyError):
        return []
