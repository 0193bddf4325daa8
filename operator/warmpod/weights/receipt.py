"""A receipt says which content a file had when somebody read all of it.

It spares reading again only while size, modification time and inode are the same: content is
never trusted because a file of that name exists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

VERSION = 1


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

    def vouches_for(self, directory: Path, paths: Iterable[str]) -> bool:
        """Whether nothing of `paths` has to be read again. Raises OSError on a missing file."""
        return all(self.digest_of(path, (directory / path).stat()) for path in paths)

    def save(self, path: Path) -> None:
        """Appears whole or not at all; readable by whoever waits for it."""
        document = {
            "version": VERSION,
            "verifier": "warmpod",
            "files": [asdict(seen) for seen in self.files],
        }
        temporary = path.with_name(path.name + ".new")
        temporary.write_text(json.dumps(document))
        temporary.chmod(0o644)
        temporary.rename(path)


def load(path: Path) -> Receipt:
    """An absent or unusable receipt is an empty one: then everything is read again."""
    try:
        document = json.loads(path.read_bytes())
        if document["version"] != VERSION:
            return Receipt()
        return Receipt(Seen(**item) for item in document["files"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return Receipt()
