"""Archives as one stream of bytes in order of need, cut into pieces named by their SHA-256.

A transfer can break off after any piece: what has arrived is known by its name, and an archive can
be read as soon as the pieces that it lies in are there.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

INDEX = "index.json"
PIECE_BYTES = 60 * 2**20
_READ_BYTES = 2**20


@dataclass(frozen=True)
class Bundle:
    """One archive; its bytes follow those of the bundles before it."""

    name: str
    size: int


@dataclass(frozen=True)
class Piece:
    sha256: str
    size: int


@dataclass(frozen=True)
class Index:
    """All bundles and pieces, both in the order of the stream."""

    bundles: tuple[Bundle, ...]
    pieces: tuple[Piece, ...]

    def text(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    def range_of(self, name: str) -> tuple[int, int]:
        """First byte of a bundle in the stream, and the one after its last."""
        start = 0
        for bundle in self.bundles:
            if bundle.name == name:
                return start, start + bundle.size
            start += bundle.size
        raise KeyError(name)

    def pieces_of(self, name: str) -> list[tuple[int, Piece]]:
        """The pieces that hold bytes of a bundle, each with its place in the stream."""
        start, end = self.range_of(name)
        ends = list(itertools.accumulate(piece.size for piece in self.pieces))
        placed = zip((0, *ends), self.pieces, strict=False)
        return [(at, piece) for at, piece in placed if at < end and at + piece.size > start]


def read_index(directory: Path) -> Index:
    """Raises FileNotFoundError where there is none."""
    document = json.loads((directory / INDEX).read_text())
    return Index(
        tuple(Bundle(**bundle) for bundle in document["bundles"]),
        tuple(Piece(**piece) for piece in document["pieces"]),
    )


def cut(archives: Mapping[str, Path], directory: Path, piece_bytes: int = PIECE_BYTES) -> Index:
    """Writes the pieces and the index; pieces that are there already stay, others go."""
    directory.mkdir(parents=True, exist_ok=True)
    pieces = [_write(piece, directory) for piece in _cut(archives.values(), piece_bytes)]
    bundles = [Bundle(name, path.stat().st_size) for name, path in archives.items()]
    index = Index(tuple(bundles), tuple(pieces))
    kept = {piece.sha256 for piece in pieces}
    for path in directory.iterdir():
        if path.name not in kept:
            path.unlink()
    (directory / INDEX).write_text(index.text())
    return index


def _cut(archives: Iterable[Path], piece_bytes: int) -> Iterator[bytes]:
    waiting = bytearray()
    for path in archives:
        with path.open("rb") as file:
            while block := file.read(piece_bytes - len(waiting)):
                waiting += block
                if len(waiting) == piece_bytes:
                    yield bytes(waiting)
                    waiting.clear()
    if waiting:
        yield bytes(waiting)


def _write(content: bytes, directory: Path) -> Piece:
    piece = Piece(hashlib.sha256(content).hexdigest(), len(content))
    path = directory / piece.sha256
    if not path.exists():
        unfinished = path.with_suffix(".new")
        unfinished.write_bytes(content)
        unfinished.rename(path)
    return piece


def missing(index: Index, store: Path) -> list[Piece]:
    """What has not arrived yet; the store only has whole pieces under such names."""
    return [piece for piece in index.pieces if not (store / piece.sha256).exists()]


def receive(index: Index, source: Path, store: Path) -> list[str]:
    """Takes whole pieces out of `source`; gives the names of files that are not what they say."""
    store.mkdir(parents=True, exist_ok=True)
    wrong = []
    for piece in missing(index, store):
        path = source / piece.sha256
        if not path.exists():
            continue
        if _sha256(path) != piece.sha256:
            wrong.append(path.name)
            continue
        unfinished = store / f"{piece.sha256}.new"
        shutil.copyfile(path, unfinished)
        unfinished.rename(store / piece.sha256)
    return wrong


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_arrived(index: Index, name: str, store: Path) -> bool:
    return all((store / piece.sha256).exists() for _, piece in index.pieces_of(name))


def unpack(index: Index, name: str, store: Path, target: Path) -> None:
    """Unpacks a bundle that has arrived; what is there already is replaced."""
    target.mkdir(parents=True, exist_ok=True)
    stream = io.BufferedReader(_Bytes(index, name, store), _READ_BYTES)
    with stream, tarfile.open(fileobj=stream, mode="r|*") as archive:
        archive.extractall(target, filter="tar")


class _Bytes(io.RawIOBase):
    """The bytes of one bundle, piece by piece."""

    def __init__(self, index: Index, name: str, store: Path) -> None:
        self._blocks = self._read(index, name, store)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer)  # type: ignore[arg-type]
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _read(self, index: Index, name: str, store: Path) -> Iterator[bytes]:
        start, end = index.range_of(name)
        for at, piece in index.pieces_of(name):
            first, last = max(start - at, 0), min(end - at, piece.size)
            with (store / piece.sha256).open("rb") as file:
                file.seek(first)
                while block := file.read(min(_READ_BYTES, last - file.tell())):
                    yield block
