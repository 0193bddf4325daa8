"""The manifest inside a weights image: every file with its size and SHA-256.

Run as `python -m warmpod.weights.manifest DIR` to write `DIR/warmpod-manifest.json`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from warmpod.weights.findings import WeightsError, summary
from warmpod.weights.hashing import map_in_threads, sha256_of
from warmpod.weights.tree import scan

MANIFEST_NAME = "warmpod-manifest.json"
VERSION = 1
# A manifest line is about 150 bytes; the biggest models have a few hundred files. The bound
# keeps a hostile image from filling the agent's memory.
MAX_MANIFEST_BYTES = 8 * 1024 * 1024
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, order=True)
class Entry:
    """One file: path relative to the model directory, size in bytes, hex digest."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All files of a model, sorted by path."""

    files: tuple[Entry, ...]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Manifest:
        return cls(tuple(sorted(entries)))

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(entry.size for entry in self.files)

    @property
    def digest(self) -> str:
        """`sha256:…` of the document, which names the content of all files."""
        return f"sha256:{hashlib.sha256(self.to_json()).hexdigest()}"

    def to_json(self) -> bytes:
        """The same bytes for the same files, because they become part of an image digest."""
        files = [{"path": e.path, "size": e.size, "sha256": e.sha256} for e in self.files]
        document = {"version": VERSION, "files": files}
        return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def from_directory(directory: Path) -> Manifest:
    """Hash every file of `directory`. Raises WeightsError when the model is not whole, or not what
    a manifest that is there already says."""
    entries = map_in_threads(lambda path: _entry(directory, path), model_files(directory))
    check_promised(read(directory), entries)
    return Manifest.of(entries)


def check_promised(promised: Manifest | None, entries: Iterable[Entry]) -> None:
    """Raises WeightsError when a file is not what the manifest of its directory says: a new
    manifest would declare a damaged file good for ever."""
    if promised is None:
        return
    said = {entry.path: entry for entry in promised.files}
    for entry in sorted(entries):
        known = said.get(entry.path)
        if known is None:
            raise _unpromised(entry.path, f"is not in {MANIFEST_NAME} of its directory")
        if entry.size != known.size:
            detail = f"{entry.size} bytes, {MANIFEST_NAME} of its directory says {known.size}"
            raise _unpromised(entry.path, detail)
        if entry.sha256 != known.sha256:
            detail = f"sha256 is {entry.sha256[:12]}…, {MANIFEST_NAME} of its directory says "
            raise _unpromised(entry.path, f"{detail}{known.sha256[:12]}…")


def check_complete(promised: Manifest | None, paths: Collection[str]) -> None:
    """Raises WeightsError when a file that the manifest lists is missing."""
    for entry in promised.files if promised else ():
        if entry.path not in paths:
            raise _unpromised(entry.path, f"missing, but {MANIFEST_NAME} of its directory lists it")


def _unpromised(path: str, detail: str) -> WeightsError:
    return WeightsError(
        f"{path}: {detail}; put the right file there, or delete {MANIFEST_NAME} if the change is "
        "meant"
    )


def model_files(directory: Path) -> list[str]:
    """The files that a manifest lists. Raises WeightsError when the model is not whole, also by the
    manifest that is there already."""
    try:
        tree = scan(directory)
    except OSError as error:
        raise WeightsError(f"{directory}: cannot be listed: {error.strerror}") from error
    if tree.findings:
        raise WeightsError(f"{directory} is not a whole model: {summary(tree.findings)}")
    files = [path for path in tree.files if path != MANIFEST_NAME]
    check_complete(read(directory), files)
    if not files:
        raise WeightsError(f"{directory} holds no files; name the model's own directory")
    for path in files:
        if not is_text(path):
            raise WeightsError(f"{directory}: the name {path!a} is not UTF-8; rename the file")
    return files


def read(directory: Path) -> Manifest | None:
    """The manifest in `directory`, None when there is none. Raises WeightsError when unusable."""
    content = read_bytes(directory)
    return None if content is None else parse(content)


def read_bytes(directory: Path) -> bytes | None:
    """The manifest as it is written, which is what its digest is about. Raises WeightsError."""
    path = directory / MANIFEST_NAME
    try:
        with path.open("rb") as file:
            content = file.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WeightsError(f"{MANIFEST_NAME}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_MANIFEST_BYTES:
        raise WeightsError(f"{MANIFEST_NAME}: larger than {MAX_MANIFEST_BYTES} bytes")
    return content


def parse(content: bytes) -> Manifest:
    """Raises WeightsError, which says what is wrong with the document."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{MANIFEST_NAME}: not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise WeightsError(f"{MANIFEST_NAME}: version must be {VERSION}; pack the model again")
    files = document.get("files")
    if not isinstance(files, list) or not files:
        raise WeightsError(f"{MANIFEST_NAME}: files must be a list with at least one file")
    entries = [_parse_entry(index, item) for index, item in enumerate(files)]
    if len({entry.path for entry in entries}) != len(entries):
        raise WeightsError(f"{MANIFEST_NAME}: files has a path twice")
    return Manifest.of(entries)


def write(directory: Path, manifest: Manifest) -> Path:
    path = directory / MANIFEST_NAME
    path.write_bytes(manifest.to_json())
    return path


def _entry(directory: Path, path: str) -> Entry:
    full = directory / path
    return Entry(path, full.stat().st_size, sha256_of(full))


def _parse_entry(index: int, item: object) -> Entry:
    where = f"{MANIFEST_NAME}: files[{index}]"
    if not isinstance(item, dict):
        raise WeightsError(f"{where}: must be an object with path, size and sha256")
    path, size, digest = item.get("path"), item.get("size"), item.get("sha256")
    if not isinstance(path, str) or not _is_inside(path):
        raise WeightsError(f"{where}.path: must be a plain path below the model directory")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise WeightsError(f"{where}.size: must be a number of bytes")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise WeightsError(f"{where}.sha256: must be 64 lower-case hex digits")
    return Entry(path, size, digest)


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    plain = path == "/".join(parts) and "\0" not in path
    inside = plain and bool(parts) and ".." not in parts and not path.startswith("/")
    return inside and is_text(path)


def is_text(path: str) -> bool:
    """A file system takes any bytes for a name, a manifest only those that are UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m warmpod.weights.manifest DIR\n")
        return 2
    try:
        manifest = from_directory(Path(arguments[0]))
        path = write(Path(arguments[0]), manifest)
    except (WeightsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{path}: {len(manifest.files)} files, {manifest.size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
