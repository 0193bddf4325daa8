"""What `entry.json` of an entry says, and whether it makes sense: anybody may have written it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warmpod.compilecache import factors as keys
from warmpod.compilecache.factors import Factors
from warmpod.compilecache.files import is_plain

FORMAT = 1
MANIFEST = "entry.json"
# A big model's caches have a few thousand files.
MOST_FILES = 20_000
MOST_BYTES = 32 * 1024**3
MOST_MANIFEST_BYTES = 8 * 1024**2
_MODES = (0o644, 0o755)


class EntryError(Exception):
    """It cannot be used; says why."""


class GoneError(EntryError):
    """There is no such entry."""


@dataclass(frozen=True)
class StoredFile:
    path: str
    size: int
    sha256: str
    mode: int
    mtime: int
    """Nanoseconds since the epoch. ninja, which FlashInfer builds with, goes by it."""


@dataclass(frozen=True)
class Entry:
    directory: Path
    key: str
    factors: Factors
    created: int
    """Unix seconds."""
    files: tuple[StoredFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def parse(path: Path, data: bytes) -> Entry:
    """Raises EntryError."""
    try:
        return _parse(path, json.loads(data))
    except (ValueError, RecursionError) as wrong:
        raise EntryError(f"{MANIFEST} is not what an entry has: {wrong}") from wrong


def encode(entry: Entry) -> bytes:
    """Raises EntryError for what `parse` would not take."""
    content = {
        "format": FORMAT,
        "key": entry.key,
        "factors": keys.as_json(entry.factors),
        "created": entry.created,
        "bytes": entry.bytes,
        "files": [asdict(file) for file in entry.files],
    }
    data = json.dumps(content, separators=(",", ":")).encode()
    if len(data) > MOST_MANIFEST_BYTES:
        raise EntryError(f"{MANIFEST} would have more than {MOST_MANIFEST_BYTES} bytes")
    parse(entry.directory, data)
    return data


def _parse(path: Path, content: Any) -> Entry:
    """Raises ValueError."""
    if not isinstance(content, dict):
        raise ValueError("not an object")
    if content.get("format") != FORMAT:
        raise ValueError(f"format {content.get('format')!r} in place of {FORMAT}")
    factors = keys.parse(content.get("factors"))
    if content.get("key") != keys.key(factors):
        raise ValueError("the key is not that of the factors")
    rows = content.get("files")
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_FILES:
        raise ValueError(f"not from 1 to {MOST_FILES} files")
    files = tuple(_parse_file(row) for row in rows)
    _check_paths([file.path for file in files])
    created = _number("created", content.get("created"))
    entry = Entry(path, content["key"], factors, created, files)
    if content.get("bytes") != entry.bytes or entry.bytes > MOST_BYTES:
        raise ValueError("bytes is not the sum of the sizes, or too much")
    return entry


def _check_paths(paths: list[str]) -> None:
    if len(set(paths)) != len(paths):
        raise ValueError("a path stands twice")
    folders = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}
    if both := folders.intersection(paths):
        raise ValueError(f"{min(both)} is a file and a folder")


def _parse_file(row: object) -> StoredFile:
    if not isinstance(row, dict) or row.keys() != StoredFile.__dataclass_fields__.keys():
        raise ValueError("a file is not an object with the fields of one")
    path, digest = row["path"], row["sha256"]
    if not isinstance(path, str) or not is_plain(path):
        raise ValueError(f"not a plain path: {str(path)[:100]!r}")
    if not isinstance(digest, str) or len(digest) != 64:
        raise ValueError(f"{path}: not a SHA-256")
    size, mode, mtime = (_number(name, row[name]) for name in ("size", "mode", "mtime"))
    if mode not in _MODES:
        raise ValueError(f"{path}: mode {mode:o}")
    return StoredFile(path, size, digest, mode, mtime)


def _number(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{name}: not a number that a file can have")
    return value
