"""Unpack an archive whose names are not to be trusted.

Nothing is created but regular files and the folders that they need, all below one folder; links
inside the archive become the file that they lead to.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from warmpod.agent.staging.errors import SourceError
from warmpod.agent.staging.files import MAX_FILES, check_names, is_hidden
from warmpod.reasons import DIGEST_MISMATCH, PATH_MISMATCH
from warmpod.weights.hashing import PIECE_BYTES
from warmpod.weights.manifest import MANIFEST_NAME

# Of a name or a link's target, and of what a tar archive says about a file beside its header.
MAX_LINK_BYTES = 4096
MAX_EXTENSION_BYTES = 1024 * 1024
# Finder and Archive Utility put it beside the content.
FOREIGN_FOLDER = "__MACOSX/"


@dataclass
class Member:
    """`link` is the member that it stands for, if it is a link; `read` opens the content."""

    path: str
    size: int
    read: Callable[[], IO[bytes]] | None
    link: str | None = None


def unpack(
    archive: Path,
    name: str,
    target: Path,
    check: Callable[[], None],
    check_room: Callable[[int], None],
) -> dict[str, tuple[Path, str]]:
    """Paths of the model → file below `target` and SHA-256. `name` decides the format.

    `check` is called for each piece, `check_room` with the size of each file before it is written.
    Raises SourceError and OSError."""
    unpacked: dict[str, tuple[Path, str]] = {}
    links: dict[str, str] = {}
    try:
        with _members(archive, name, check) as members:
            for number, member in enumerate(members):
                _check_member(name, member, number)
                if member.link is not None:
                    links[member.path] = member.link
                elif member.read is not None and not _is_foreign(member.path):
                    check_room(member.size)
                    # Named by number: two names may differ in case only, or be there twice.
                    path = target / str(number)
                    unpacked[member.path] = path, _write(member.read(), path, check)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{name} is damaged or no such archive ({type(error).__name__}) — upload it again"
        raise SourceError(DIGEST_MISMATCH, message) from error
    except (RuntimeError, NotImplementedError) as error:
        message = f"{name}: {error} — pack it without encryption and with a common compression"
        raise SourceError(PATH_MISMATCH, message) from error
    _resolve_links(name, unpacked, links, target)
    return _without_top_folder(name, unpacked)


def _check_member(name: str, member: Member, number: int) -> None:
    _check_number(name, number)
    check_names([member.path], name)


def _check_number(name: str, number: int) -> None:
    if number >= MAX_FILES:
        message = f"{name} has more than {MAX_FILES} entries — pack the model's own directory"
        raise SourceError(PATH_MISMATCH, message)


def _is_foreign(path: str) -> bool:
    return is_hidden(path) or path.startswith(FOREIGN_FOLDER)


def _write(source: IO[bytes], path: Path, check: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    with source, path.open("wb") as file:
        while piece := source.read(PIECE_BYTES):
            check()
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _resolve_links(
    name: str, unpacked: dict[str, tuple[Path, str]], links: dict[str, str], target: Path
) -> None:
    for number, (path, link) in enumerate(links.items()):
        if _is_foreign(path):
            continue
        seen = {path}
        while link in links and link not in seen:
            seen.add(link)
            link = links[link]
        if link not in unpacked:
            message = f"{name}: {path} is a link to {ascii(link)[:200]}, which is no file in it"
            raise SourceError(PATH_MISMATCH, f"{message} — pack the file itself")
        original, sha256 = unpacked[link]
        copy = target / f"link-{number}"
        os.link(original, copy)
        unpacked[path] = copy, sha256


def _without_top_folder(
    name: str, unpacked: dict[str, tuple[Path, str]]
) -> dict[str, tuple[Path, str]]:
    tops = {path.partition("/")[0] for path in unpacked}
    if len(tops) == 1 and all("/" in path for path in unpacked):
        unpacked = {path.partition("/")[2]: file for path, file in unpacked.items()}
    unpacked.pop(MANIFEST_NAME, None)
    if not unpacked:
        message = f"{name} has no files for a model — pack the model's own directory"
        raise SourceError(PATH_MISMATCH, message)
    check_names(unpacked, name)
    return unpacked


@contextmanager
def _members(archive: Path, name: str, check: Callable[[], None]) -> Iterator[Iterator[Member]]:
    if name.endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            yield _zip_members(opened, name)
        return
    with archive.open("rb") as file:
        packed = not name.endswith(".tar")
        content = _Checked(cast(IO[bytes], gzip.GzipFile(fileobj=file) if packed else file), check)
        stream = cast(IO[bytes], content)
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_BoundedInfo) as tar:
            yield _tar_members(tar, name)
        while content.read(PIECE_BYTES):  # the check sum of gzip stands at its end
            pass


class _Checked:
    """Content that is skipped (hidden files, what follows the archive) can be stopped as well."""

    def __init__(self, content: IO[bytes], check: Callable[[], None]) -> None:
        self._content = content
        self._check = check

    def read(self, size: int = PIECE_BYTES) -> bytes:
        self._check()
        return self._content.read(size)


class _BoundedInfo(tarfile.TarInfo):
    """tarfile reads long names and other extensions of a header into memory, however long."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTENSIONS and self.size > MAX_EXTENSION_BYTES:
            raise tarfile.ReadError(f"a header is longer than {MAX_EXTENSION_BYTES} bytes")
        return cast(tarfile.TarInfo, super()._proc_member(tar))  # type: ignore[misc]


_EXTENSIONS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


def _zip_members(opened: zipfile.ZipFile, name: str) -> Iterator[Member]:
    for info in opened.infolist():
        mode = info.external_attr >> 16
        path = _normal(info.filename)
        if info.is_dir():
            continue
        if stat.S_ISLNK(mode):
            if info.file_size > MAX_LINK_BYTES:
                message = f"{name}: {ascii(path)[:200]} is a link longer than any path"
                raise SourceError(PATH_MISMATCH, f"{message} — pack the file itself")
            link = opened.read(info).decode(errors="surrogateescape")
            yield Member(path, 0, None, _link_target(path, link))
        else:
            yield Member(path, info.file_size, partial(opened.open, info))


def _tar_members(tar: tarfile.TarFile, name: str) -> Iterator[Member]:
    for number, info in enumerate(tar):
        _check_number(name, number)  # also of folders: tarfile remembers every entry
        path = _normal(info.name)
        if info.isdir():
            continue
        if info.issym():
            yield Member(path, 0, None, _link_target(path, info.linkname))
        elif info.islnk():
            yield Member(path, 0, None, _normal(info.linkname))
        elif info.isreg():
            yield Member(path, info.size, partial(_content, tar, info))
        else:
            message = f"{name}: {ascii(path)[:200]} is a device or pipe — pack regular files only"
            raise SourceError(PATH_MISMATCH, message)


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(info)
    if content is None:
        raise tarfile.ReadError(f"{info.name} has no content")
    return content


def _normal(path: str) -> str:
    """Without the `./` that tar puts before names."""
    while path.startswith("./"):
        path = path[2:]
    return path


def _link_target(path: str, link: str) -> str:
    """Where a symbolic link leads, as a name of the archive; one that leads out names no member."""
    return posixpath.normpath(posixpath.join(PurePosixPath(path).parent.as_posix(), link))
