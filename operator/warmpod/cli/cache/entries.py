"""Entries of compile caches as agents list them, and which of them are meant. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warmpod.cli.cluster import Document

#: The state of an entry that pods start with.
PUBLISHED = "published"


class CacheError(Exception):
    """One line that says what of a cache could not be done and what helps."""


@dataclass(frozen=True)
class Stored:
    """An entry in the store of a node. `used` and `created` in seconds since 1970; `why` it is not
    published, empty where it is."""

    node: str
    key: str
    state: str
    size: int
    files: int
    created: float
    used: float
    why: str = ""
    factors: Document = field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        return self.state == PUBLISHED


def read_listing(node: str, text: bytes) -> list[Stored]:
    """What `warmpod-agent cache ls` prints. Raises CacheError."""
    document = document_of(node, text)
    try:
        return [_stored(node, entry) for entry in document["entries"]]
    except (LookupError, TypeError, ValueError) as error:
        raise _other_version(node) from error


def _stored(node: str, entry: Document) -> Stored:
    return Stored(
        node=node,
        key=str(entry["key"]),
        state=str(entry["state"]),
        size=int(entry["bytes"]),
        files=int(entry["files"]),
        created=float(entry["created"]),
        used=float(entry["used"]),
        why=str(entry.get("why") or ""),
        factors=dict(entry.get("factors") or {}),
    )


def document_of(node: str, text: bytes) -> Document:
    """What an agent prints, as JSON. Raises CacheError."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _other_version(node) from error
    if not isinstance(document, dict):
        raise _other_version(node)
    return document


def _other_version(node: str) -> CacheError:
    return CacheError(
        f"the agent on node {node} answers what this command does not understand: take the "
        "command line of the operator's version"
    )


def resolve(wanted: Sequence[str], stored: Iterable[Stored]) -> set[str]:
    """Keys by their beginnings; those of all entries where none is wanted. Raises CacheError."""
    known = {entry.key for entry in stored}
    if not wanted:
        return known
    return {_resolved(beginning, known) for beginning in wanted}


def _resolved(beginning: str, known: set[str]) -> str:
    found = sorted(key for key in known if key.startswith(beginning))
    match len(found):
        case 0:
            raise CacheError(f"no entry has a key that begins with {beginning}: see cache ls")
        case 1:
            return found[0]
        case count:
            raise CacheError(
                f"{count} entries have keys that begin with {beginning}: write more of the key "
                f"({found[0]} or {found[1]})"
            )


def to_push(stored: Iterable[Stored], wanted: Sequence[str]) -> list[Stored]:
    """One published entry a key, by key. Where nodes have compiled the same, that of the oldest is
    taken, so that the image stays the same when more nodes come. Raises CacheError."""
    published = [entry for entry in stored if entry.is_published]
    if not published:
        raise CacheError(
            "no entry is published yet: a pod publishes what it compiled some seconds after it "
            "became warm"
        )
    keys = resolve(wanted, published)
    by_key: dict[str, Stored] = {}
    for entry in sorted(published, key=lambda entry: (entry.created, entry.node)):
        if entry.key in keys:
            by_key.setdefault(entry.key, entry)
    return [by_key[key] for key in sorted(by_key)]
