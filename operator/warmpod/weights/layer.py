"""A layer of a weights image, made while it is read: never a second copy of a shard on disk.

A tar archive of a file is a header, the file, and zeros up to the next block. So a layer can be
hashed in one pass over the model and sent in the next, from any position on.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from warmpod.weights.findings import WeightsError
from warmpod.weights.hashing import PIECE_BYTES, Watch, unwatched
from warmpod.weights.manifest import Entry

Sink = Callable[[bytes], object]


@dataclass(frozen=True)
class _File:
    path: Path
    name: str
    size: int


_Part = bytes | _File


class Layer:
    """Files of a model below one another in a tar archive.

    The archive depends on names and content only: times are 0, owners root, modes fixed."""

    def __init__(self, parts: Iterable[_Part]) -> None:
        self._parts = tuple(parts)
        self.size = sum(_size(part) for part in self._parts)

    def read(self, start: int = 0) -> Iterator[bytes]:
        """The archive from byte `start` on. Raises WeightsError when a file has changed."""
        for part in self._parts:
            if start < _size(part):
                yield from _pieces(part, start)
            start = max(0, start - _size(part))

    def digest(
        self, sink: Sink = lambda data: None, watch: Watch = unwatched
    ) -> tuple[str, list[Entry]]:
        """The layer's digest (`sha256:…`) and its files, from one pass that goes to `sink` too.

        `watch` is told of the files' bytes. Raises WeightsError when a file has changed."""
        layer = hashlib.sha256()
        entries = []
        for part in self._parts:
            file = hashlib.sha256()
            for piece in _pieces(part, 0):
                layer.update(piece)
                if isinstance(part, _File):
                    file.update(piece)
                    watch(len(piece))
                sink(piece)
            if isinstance(part, _File):
                entries.append(Entry(part.name, part.size, file.hexdigest()))
        return f"sha256:{layer.hexdigest()}", entries


def layer_of(source: Path, names: Iterable[str], made: Mapping[str, bytes] | None = None) -> Layer:
    """The files `names` of the directory `source`, then files that exist only in memory."""
    return Layer(_parts(source, names, made or {}))


def _parts(source: Path, names: Iterable[str], made: Mapping[str, bytes]) -> Iterator[_Part]:
    folders: set[str] = set()
    written = 0

    def headed(name: str, content: _Part) -> Iterator[_Part]:
        size = _size(content)
        yield from _folders(name, folders)
        info = tarfile.TarInfo(name)
        info.size = size
        info.mode = 0o444
        yield _header(info)
        yield content
        yield bytes(-size % tarfile.BLOCKSIZE)

    def all_parts() -> Iterator[_Part]:
        for name in names:
            path = source / name
            yield from headed(name, _File(path, name, path.stat().st_size))
        for name, content in made.items():
            yield from headed(name, content)
        yield bytes(2 * tarfile.BLOCKSIZE)

    for part in all_parts():
        written += _size(part)
        yield part
    yield bytes(-written % tarfile.RECORDSIZE)


def _folders(name: str, known: set[str]) -> Iterator[bytes]:
    """Without an entry of its own a folder gets whatever mode the unpacker likes."""
    for folder in reversed(PurePosixPath(name).parents):
        path = folder.as_posix()
        if path == "." or path in known:
            continue
        known.add(path)
        info = tarfile.TarInfo(path)
        info.type = tarfile.DIRTYPE
        info.mode = 0o555
        yield _header(info)


def _header(info: tarfile.TarInfo) -> bytes:
    # PAX, because a shard can be larger than the 8 GiB that plain ustar can express.
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _size(part: _Part) -> int:
    return part.size if isinstance(part, _File) else len(part)


def _pieces(part: _Part, start: int) -> Iterator[bytes]:
    """A piece stays valid: a connection may keep it until it is sent."""
    if isinstance(part, bytes):
        yield part[start:]
        return
    left = part.size - start
    with part.path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        file.seek(start)
        while piece := file.read(min(PIECE_BYTES, left)):
            left -= len(piece)
            yield piece
        if left or os.fstat(file.fileno()).st_size != part.size:
            raise WeightsError(f"{part.path}: its size changed while it was packed")
