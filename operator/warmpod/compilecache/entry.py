"""An entry of a store: what one engine compiled, as files with their hashes.

A directory with `entry.json` and `files/…`. Whoever wrote it is not trusted with more than its
content: pods offer entries, the agent copies what it could verify, and pods verify again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from warmpod.compilecache import factors as keys
from warmpod.compilecache.factors import Factors
from warmpod.compilecache.files import directory, open_directory, open_file, walk
from warmpod.compilecache.manifest import (
    MANIFEST,
    MOST_BYTES,
    MOST_FILES,
    MOST_MANIFEST_BYTES,
    Entry,
    EntryError,
    GoneError,
    StoredFile,
    encode,
    parse,
)

__all__ = [
    "FILES",
    "Entry",
    "EntryError",
    "GoneError",
    "StoredFile",
    "copy",
    "read",
    "unpack",
    "write",
]

FILES = "files"
_CHUNK_BYTES = 1024**2


def read(path: Path) -> Entry:
    """What `entry.json` says; the files are not looked at. Raises EntryError."""
    try:
        with directory(path) as folder:
            data = _read_manifest(folder)
    except FileNotFoundError as missing:
        raise GoneError(f"{path} has no {MANIFEST}") from missing
    except OSError as failed:
        raise EntryError(f"{MANIFEST} cannot be read: {failed.strerror}") from failed
    return parse(path, data)


def write(
    source: Path,
    target: Path,
    factors: Factors,
    now: float,
    left_out: Callable[[str, os.stat_result], bool] = lambda _path, _status: False,
) -> Entry:
    """Make an entry of the files below `source` in a directory `target`, which must not exist.

    A file that is changed or removed meanwhile is left out, as are those that `left_out` says. On
    failure nothing is left. Raises EntryError, OSError.
    """
    with _new_entry(target):
        files = tuple(_gather(source, target / FILES, left_out))
        if not files:
            raise EntryError("there is nothing to keep")
        entry = Entry(target, keys.key(factors), factors, int(now), files)
        _write_manifest(entry, target)
    return entry


def copy(entry: Entry, target: Path) -> None:
    """Copy the entry to a directory `target`, which must not exist. Of the files only what the
    manifest says is copied, and verified on the way. On failure nothing is left. Raises EntryError,
    OSError."""
    with _new_entry(target):
        unpack(entry, target / FILES)
        _write_manifest(entry, target)


def unpack(entry: Entry, target: Path) -> None:
    """Copy the files into `target`, over what is there, and verify them on the way. What failed
    leaves a part behind. Raises EntryError, OSError if `target` cannot be written."""
    source = _open_files(entry)
    try:
        for file in entry.files:
            _take(source, file, target)
    finally:
        os.close(source)


@contextmanager
def _new_entry(target: Path) -> Iterator[None]:
    """A directory for files and manifest, removed if they fail."""
    _make_folder(target)
    try:
        _make_folder(target / FILES)
        yield
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _open_files(entry: Entry) -> int:
    try:
        with directory(entry.directory) as outer:
            return open_directory(FILES, outer)
    except OSError as failed:
        raise EntryError(f"{FILES} cannot be read: {failed.strerror}") from failed


def _take(source: int, file: StoredFile, target: Path) -> None:
    try:
        reader = open_file(file.path, source)
    except OSError as failed:
        raise EntryError(f"{file.path} cannot be read: {failed.strerror}") from failed
    try:
        digest = _copy(reader, _new_file(target, file.path), file.size, file.mode, file.mtime)
    finally:
        os.close(reader)
    if digest != file.sha256:
        raise EntryError(f"{file.path} is not what was stored")


def _copy(reader: int, path: Path, size: int, mode: int, mtime: int) -> str:
    """The SHA-256 of what was copied. Raises EntryError if it is not of this size."""
    if os.fstat(reader).st_size != size:
        raise EntryError(f"{path.name} has {os.fstat(reader).st_size} bytes in place of {size}")
    digest, left = hashlib.sha256(), size
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    writer = os.open(path, flags, 0o600)
    try:
        while chunk := os.read(reader, min(_CHUNK_BYTES, left)):
            left -= len(chunk)
            digest.update(chunk)
            _write_all(writer, chunk)
        if left:
            raise EntryError(f"{path.name} got shorter while it was read")
        os.fchmod(writer, mode)
        os.utime(writer, ns=(mtime, mtime))
    finally:
        os.close(writer)
    return digest.hexdigest()


def _gather(
    source: Path, target: Path, left_out: Callable[[str, os.stat_result], bool]
) -> Iterator[StoredFile]:
    total = count = 0
    with directory(source) as folder:
        for path in walk(folder):
            try:
                reader = open_file(path, folder)
            except OSError:
                continue
            try:
                file = _keep(reader, path, target, left_out)
            finally:
                os.close(reader)
            if file is not None:
                count, total = count + 1, total + file.size
                yield file
            if count > MOST_FILES or total > MOST_BYTES:
                raise EntryError(f"more than {MOST_FILES} files, or {MOST_BYTES} bytes")


def _keep(
    reader: int, path: str, target: Path, left_out: Callable[[str, os.stat_result], bool]
) -> StoredFile | None:
    """None if it is left out, or somebody writes the file meanwhile."""
    before = os.fstat(reader)
    if left_out(path, before):
        return None
    mode = 0o755 if before.st_mode & 0o100 else 0o644
    new = _new_file(target, path)
    try:
        digest = _copy(reader, new, before.st_size, mode, before.st_mtime_ns)
    except EntryError:
        new.unlink(missing_ok=True)
        return None
    after = os.fstat(reader)
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        new.unlink()
        return None
    return StoredFile(path, before.st_size, digest, mode, before.st_mtime_ns)


def _new_file(target: Path, path: str) -> Path:
    """Where it goes; what is there is removed."""
    new = target / path
    folder = target
    for name in path.split("/")[:-1]:
        folder = folder / name
        if not folder.is_dir():
            _make_folder(folder)
    new.unlink(missing_ok=True)
    return new


def _make_folder(path: Path) -> None:
    """Others read it as another user, whatever the umask."""
    path.mkdir()
    path.chmod(0o755)


def _write_manifest(entry: Entry, target: Path) -> None:
    path = target / MANIFEST
    path.write_bytes(encode(entry))
    path.chmod(0o644)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_manifest(folder: int) -> bytes:
    """Raises EntryError if it is too long, OSError."""
    descriptor = open_file(MANIFEST, folder)
    data = bytearray()
    try:
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            data += chunk
            if len(data) > MOST_MANIFEST_BYTES:
                raise EntryError(f"{MANIFEST} has more than {MOST_MANIFEST_BYTES} bytes")
    finally:
        os.close(descriptor)
    return bytes(data)
