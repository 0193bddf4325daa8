"""Names the content of files, so that an image is built again only when it would differ."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

SKIPPED = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}


def of_sources(root: Path, sources: Iterable[str], *further: str) -> str:
    """SHA-256 over paths, modes and contents of files below root, and over further strings."""
    digest = hashlib.sha256()
    for text in further:
        _add(digest, text.encode())
    for path in sorted(file for source in sources for file in _files(root / source)):
        executable = b"x" if path.stat().st_mode & 0o100 else b"-"
        _add(digest, str(path.relative_to(root)).encode())
        _add(digest, executable + path.read_bytes())
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is missing")
    return [
        file
        for file in path.rglob("*")
        if file.is_file() and not SKIPPED.intersection(file.relative_to(path).parts)
    ]


def _add(digest: "hashlib._Hash", content: bytes) -> None:
    """The length keeps neighbours apart."""
    digest.update(len(content).to_bytes(8, "big"))
    digest.update(content)
