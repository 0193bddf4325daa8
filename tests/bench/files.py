"""Models for measurements: files of random bytes, with a manifest. Nothing in them is sparse."""

from __future__ import annotations

import os
from pathlib import Path

from warmpod.weights import manifest

MEMORY = Path("/dev/shm")
DISK = Path("/var/tmp")
PIECE_BYTES = 16 * 2**20


def make_model(directory: Path, files: int, size: int) -> list[Path]:
    """`files` shards of `size` bytes each, in a new directory that everybody may read."""
    directory.mkdir()
    directory.chmod(0o755)
    names = [directory / f"model-{n + 1:05}-of-{files:05}.safetensors" for n in range(files)]
    for path in names:
        write(path, size)
    manifest.write(directory, manifest.from_directory(directory))
    return names


def write(path: Path, size: int) -> None:
    """Another content for each file, though most pieces are the same."""
    piece = bytearray(os.urandom(PIECE_BYTES))
    with path.open("wb", buffering=0) as file:
        for offset in range(0, size, PIECE_BYTES):
            piece[:8] = (offset ^ hash(path.name)).to_bytes(8, "little", signed=True)
            file.write(memoryview(piece)[: size - offset])


def forget(path: Path) -> None:
    """Drop a file from the page cache; what is dirty cannot be dropped."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
