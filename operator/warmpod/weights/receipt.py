"""A receipt says which content a file had when somebody read all of it.

It spares reading again only while size, inode and both times of the file are the same, and only
until the node restarts: content is never trusted because a file of that name exists, and what a
disk holds after a crash is not what a process saw before it. The modification time alone would not
do, because whoever writes a file may set it; the time of change (ctime) is the kernel's own. It
moves with chmod, chown, link and rename as well: then the file is read once more.
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
    """A file as it was when its digest was computed; sizes in bytes, times in nanoseconds."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    sha256: str

    @classmethod
    def of(cls, path: str, facts: os.stat_result, sha256: str) -> Seen:
        times = facts.st_mtime_ns, facts.st_ctime_ns
        return cls(path, facts.st_size, *times, facts.st_ino, sha256)


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
            **_to_document(self.files),
        }
        temporary = path.with_name(path.name + ".new")
        temporary.unlink(missing_ok=True)  # whatever it is, such as a link
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


def _to_document(files: Iterable[Seen]) -> dict[str, Any]:
    """Times of change stand beside the files: agents of a version that does not know them share
    copies with this one, and take no file that has a field more. So neither undoes for ever what
    the other wrote: a receipt of theirs costs reading once, and ours they leave as it is."""
    items = [asdict(seen) for seen in files]
    changed = {item["path"]: item.pop("ctime_ns") for item in items}
    return {"files": items, "changed": changed}


def _files(document: dict[str, Any]) -> list[Seen]:
    """Without those that have no time of change, as an earlier version wrote them."""
    try:
        changed = document.get("changed", {})
        return sorted(
            Seen(ctime_ns=changed[item["path"]], **item)
            for item in document["files"]
            if item["path"] in changed
        )
    except (TypeError, KeyError, AttributeError):
        return []
