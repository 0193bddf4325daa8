"""Copies of weights that agents keep on the node, as they lie there."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from support.weights import Files
from warmpod.protocol import RECEIPT_NAME
from warmpod.weights.manifest import MANIFEST_NAME


@dataclass(frozen=True)
class Copies:
    """A directory with one copy a key; names with a dot are the agents' own notes."""

    root: Path

    def of_image(self, digest: str) -> Path:
        """Where agents put the copy of an image's weights."""
        return self.root / digest.removeprefix("sha256:")[:32]

    def names(self) -> set[str]:
        """Of the copies that have content."""
        if not self.root.exists():
            return set()
        return {
            path.name
            for path in self.root.iterdir()
            if not path.name.startswith(".") and path.is_dir() and any(path.iterdir())
        }

    def stored_bytes(self, besides: set[str]) -> int:
        """Of all weights files of the other copies, unfinished ones included; each inode once."""
        paths = (
            Path(folder, file)
            for name in self.names() - besides
            for folder, _, files in os.walk(self.root / name)  # goes on where a folder has gone
            for file in files
        )
        return sum({found.st_ino: found.st_size for found in map(_facts, paths) if found}.values())


NODE_MEMORY = Copies(Path("/dev/shm/warmpod"))
NODE_DISK = Copies(Path("/var/lib/warmpod/weights"))


def _facts(path: Path) -> os.stat_result | None:
    """Of a weights file; None for anything else, and for what has just gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    is_note = path.name in (RECEIPT_NAME, MANIFEST_NAME)
    return found if stat.S_ISREG(found.st_mode) and not is_note else None


def is_whole(directory: Path, files: Files) -> bool:
    """Whether the receipt is there, and every file with its size; whatever manifest there is."""
    try:
        return (directory / RECEIPT_NAME).exists() and all(
            (directory / path).stat().st_size == len(file.content)
            for path, file in without_manifest(files).items()
        )
    except FileNotFoundError:
        return False


def digests_in(directory: Path) -> dict[str, str]:
    """SHA-256 of every file below a directory that an engine would see; without the manifest."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not hidden and path.name != MANIFEST_NAME:
            with path.open("rb") as file:
                found[str(name)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def write_files(directory: Path, files: Files) -> None:
    """The files as people have them on a disk: readable by everybody, without a manifest."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    for path, file in without_manifest(files).items():
        (directory / path).write_bytes(file.content)
        (directory / path).chmod(0o644)


def digests_of(files: Files) -> dict[str, str]:
    """The same of files that are to be there."""
    return {
        path: hashlib.sha256(file.content).hexdigest()
        for path, file in without_manifest(files).items()
    }


def size_of(files: Files) -> int:
    """Bytes of what an engine reads."""
    return sum(len(file.content) for file in without_manifest(files).values())


def without_manifest(files: Files) -> Files:
    """What a copy has of them; it may have a manifest of its own."""
    return {path: file for path, file in files.items() if path != MANIFEST_NAME}
