"""Where `pack` writes to: a directory or a registry, told apart so that neither is hit by accident.

Pure but for one look whether a folder of that name exists.
"""

from __future__ import annotations

import re
from pathlib import Path

LAYOUT_SCHEME = "oci:"
_PATH_BEGINNINGS = ("/", "./", "../", "~/")
_REPOSITORY = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class DestinationError(Exception):
    """It can mean either, or is neither; the message says what to write instead."""


def parse(text: str) -> Path | str:
    """The directory of an OCI layout, or a reference with registry and tag."""
    if text.startswith(LAYOUT_SCHEME):
        return Path(text.removeprefix(LAYOUT_SCHEME)).expanduser()
    if text in (".", "..") or text.startswith(_PATH_BEGINNINGS):
        return Path(text).expanduser()
    host, slash, rest = text.partition("/")
    named = "." in host or ":" in host or host == "localhost"
    if not (slash and rest and named) or Path(host).exists():
        raise DestinationError(
            f"{text}: write ./{text} for a directory, or a reference that begins with its registry "
            f"(registry.example.com/models/name:1.0; docker.io/{text} for Docker Hub)"
        )
    if "@" in rest:
        raise DestinationError(f"{text}: the digest comes from the files; name a tag")
    repository, colon, tag = rest.partition(":")
    if not colon:
        raise DestinationError(f"{text}: name a tag, as in {text}:1.0")
    if not _REPOSITORY.fullmatch(repository) or not _TAG.fullmatch(tag):
        raise DestinationError(f"{text}: not a reference: repositories are written in lower case")
    return text
