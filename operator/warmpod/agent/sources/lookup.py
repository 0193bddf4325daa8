"""What a new engine would find at the path of a source.

The kubelet looks a path up when a container starts. From then on the container has that directory,
whatever becomes of its name: after `mv`, or when a link on the way leads elsewhere, the agent would
go on vouching for files that no new engine reads. So the path is looked up again at each look, from
a mount of the directory that it begins in.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from warmpod.agent.sources.origin import Kind, Origin
from warmpod.agent.staging import SourceError
from warmpod.protocol import REMEDY
from warmpod.reasons import PATH_MISMATCH

log = logging.getLogger(__name__)

# As many as Linux follows (path_resolution(7)).
MAX_LINKS = 40
NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class SourceReplaced(Exception):
    """A new engine would find another directory than this agent has: only a new container has
    that."""


@dataclass(frozen=True)
class Lookup:
    """`path` is below `root`, which is mounted from `place` of the node; empty for a claim, in
    which an absolute link leads nowhere."""

    root: Path
    path: str
    place: str = ""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Lookup:
        """Raises KeyError."""
        place = str(document.get("place") or "")
        return cls(Path(document["root"]), str(document["path"]), place)


@dataclass(frozen=True)
class Found:
    """The texts of the links on the way, and device and inode at its end; None where it leads out
    of what the agent has mounted."""

    links: tuple[str, ...]
    identity: tuple[int, int] | None


class Standing:
    """Whether the directory that the agent has is what its path leads to; nothing is asked where
    there is no `lookup`."""

    def __init__(self, lookup: Lookup | None, directory: Path, origin: Origin | None) -> None:
        self._lookup = lookup
        self._directory = directory
        self._place = origin.place if origin is not None else str(directory)
        claim = origin is not None and origin.kind is Kind.CLAIM
        self._where = "in the claim" if claim else "on the node"
        self._first: Found | None = None

    def check(self) -> None:
        """Raises SourceReplaced; and SourceError while there is nothing: an agent that ended then
        could have the container runtime make an empty directory in the way of the right one."""
        if self._lookup is None:
            return
        try:
            found = find(self._lookup)
        except OSError as error:
            self._lost(error)
            return
        if self._first is None:
            self._first = found
        if found.identity is None:
            replaced = found.links != self._first.links
        else:
            replaced = found.identity != _identity(self._directory)
        if replaced:
            raise SourceReplaced(
                f"another directory is at {self._place} {self._where} than when this agent "
                f"started{REMEDY}the agent starts again by itself, and verifies that one"
            )

    def _lost(self, error: OSError) -> None:
        if error.errno not in NOTHING_THERE:
            # A directory on the way that only its owner may enter; the kubelet may.
            log.debug("%s cannot be looked up: %s", self._place, error)
            return
        if self._first is None:
            self._first = Found((), None)
        raise SourceError(
            PATH_MISMATCH,
            f"there is no directory any more at {self._place}{REMEDY}put the model there "
            f"{self._where}; what lies there then is verified by itself",
        ) from error


def find(lookup: Lookup) -> Found:
    """Look the path up as the node would, which has other directories above `root`. Raises
    OSError."""
    here, left = lookup.root, list(PurePosixPath(lookup.path).parts)
    links: list[str] = []
    while left:
        part = left.pop(0)
        if part == "..":
            if here == lookup.root:
                return Found(tuple(links), None)
            here = here.parent
        elif stat.S_ISLNK(os.lstat(here / part).st_mode):
            text = os.readlink(here / part)
            links.append(text)
            if len(links) > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(here / part))
            # To the kernel two slashes are one; PurePosixPath keeps them, as POSIX allows.
            target = PurePosixPath(re.sub("^/+", "/", text))
            if target.is_absolute():
                if not lookup.place or not target.is_relative_to(lookup.place):
                    return Found(tuple(links), None)
                here, target = lookup.root, target.relative_to(lookup.place)
            left[:0] = target.parts
        else:
            here /= part
    if not here.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(here))
    return Found(tuple(links), _identity(here))


def _identity(directory: Path) -> tuple[int, int] | None:
    """None of one that is there no more, as on a server of which another node removed it."""
    try:
        facts = directory.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
