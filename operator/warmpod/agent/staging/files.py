"""What a source offers: files with a size, a pinned version, and a digest if there is one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from warmpod.agent.staging.digests import Digest
from warmpod.agent.staging.errors import SourceError
from warmpod.reasons import PATH_MISMATCH
from warmpod.weights.manifest import MANIFEST_NAME, Manifest

# Far more than any model has; it keeps a hostile or mistaken source from filling the memory.
MAX_FILES = 20_000
MAX_NAME_BYTES = 255


@dataclass(frozen=True, order=True)
class RemoteFile:
    """`identity` is what pins the content: another identity is another file. Empty: nothing tells
    versions apart, so nothing is kept that another answer would have to be the rest of. `told_by`
    is the header of every answer that has the identity, if one has. Without `ranges` the file is
    downloaded from its beginning only."""

    path: str
    size: int
    identity: str
    digest: Digest | None = None
    ranges: bool = True
    told_by: str = ""


def size_of(text: str) -> int | None:
    """Bytes that a source names; None for what is no number of bytes that a disk could have."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def is_hidden(path: str) -> bool:
    """Hidden names are not part of a model (weights.tree), and warmpod keeps its own there."""
    return any(part.startswith(".") and part not in (".", "..") for part in path.split("/"))


def is_safe(path: str) -> bool:
    """Whether `path` stays inside and can be created as it is written."""
    parts = path.split("/")
    return all(
        part not in ("", ".", "..")
        and "\\" not in part
        and part.isprintable()
        and len(part.encode(errors="surrogateescape")) <= MAX_NAME_BYTES
        for part in parts
    )


def checked(files: Iterable[RemoteFile], where: str) -> tuple[RemoteFile, ...]:
    """The plan: sorted, without hidden files. Raises SourceError for what no directory can hold."""
    plan = sorted(file for file in files if not is_hidden(file.path) and file.path != MANIFEST_NAME)
    if not plan:
        raise SourceError(PATH_MISMATCH, f"{where} has no files for a model — correct the source")
    if len(plan) > MAX_FILES:
        message = f"{where} has more than {MAX_FILES} files — name the model's own directory"
        raise SourceError(PATH_MISMATCH, message)
    check_names([file.path for file in plan], where)
    for file in plan:
        if not isinstance(file.size, int) or file.size < 0:
            raise _bad_name(where, file.path, "has a size that is none")
    return tuple(plan)


def check_names(paths: Iterable[str], where: str) -> None:
    """Raises SourceError when a path is unsafe, there twice, or both a file and a folder."""
    seen: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        if not is_safe(path):
            raise _bad_name(where, path, "is not a plain path below the model directory")
        if path in seen:
            raise _bad_name(where, path, "is there twice")
        seen.add(path)
        folders.update(parent.as_posix() for parent in PurePosixPath(path).parents)
    for path in sorted(seen & folders):
        raise _bad_name(where, path, "is both a file and a folder")


def with_manifest(
    files: Iterable[RemoteFile], manifest: Manifest, where: str
) -> tuple[RemoteFile, ...]:
    """The files that the source's own manifest lists, with the digests that it promises."""
    present = {file.path: file for file in files}
    plan = []
    for entry in manifest.files:
        file = present.get(entry.path)
        if file is None or file.size != entry.size:
            found = "is missing" if file is None else f"has {file.size} bytes, not {entry.size}"
            message = (
                f"{where}: {entry.path} {found}, but {MANIFEST_NAME} lists it — upload it again"
            )
            raise SourceError(PATH_MISMATCH, message)
        digest = Digest("sha256", entry.sha256)
        plan.append(replace(file, digest=digest))
    return tuple(plan)


def _bad_name(where: str, path: str, what: str) -> SourceError:
    message = f"{where}: {ascii(path)[:200]} {what} — rename it, or exclude it in the source"
    return SourceError(PATH_MISMATCH, message)
