"""Copies of weights that agents keep on the node, as they lie there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from support.weights import Files
from warmpod.protocol import RECEIPT_NAME

MANIFEST = "warmpod-manifest.json"


@dataclass(frozen=True)
class Copies:
    """A directory with one copy a key; names with a dot are the agents' own notes."""

    root: Path

    def keys(self) -> set[str]:
        """Of the copies that have content."""
        if not self.root.exists():
            return set()
        return {
            path.name
            for path in self.root.iterdir()
            if not path.name.startswith(".") and path.is_dir() and any(path.iterdir())
        }

    def stored_bytes(self) -> int:
        """Of all weights files, those of unfinished copies included; each inode once."""
        sizes = {}
        for path in self.root.rglob("*"):
            if path.is_file() and path.name != RECEIPT_NAME and ".refs" not in path.parts:
                facts = path.stat()
                sizes[facts.st_ino] = facts.st_size
        return sum(sizes.values())


NODE_MEMORY = Copies(Path("/dev/shm/warmpod"))
NODE_DISK = Copies(Path("/var/lib/warmpod/weights"))


def is_whole(directory: Path, files: Files) -> bool:
    """Whether the receipt is there, and every file with its size."""
    try:
        return (directory / RECEIPT_NAME).exists() and all(
            (directory / path).stat().st_size == len(file.content) for path, file in files.items()
        )
    except FileNotFoundError:
        return False


def digests_in(directory: Path) -> dict[str, str]:
    """SHA-256 of every file below a directory that an engine would see; without the manifest."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not hidden and path.name != MANIFEST:
            with path.open("rb") as file:
                found[str(name)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def digests_of(files: Files) -> dict[str, str]:
    """The same of files that are to be there."""
    return {
        path: hashlib.sha256(file.content).hexdigest()
        for path, file in files.items()
        if path != MANIFEST
    }
