"""The names below the root of a store.

published/<key>/           entries; agents write, pods read
incoming/offer-<key>-…/    entries that pods offer
incoming/.tmp-…/           offers that are not complete yet
incoming/used-<key>        a pod has filled its cache from this entry
incoming/bad-<key>         a pod could not use this entry; JSON that says why
set-aside/<key>/           the last entry of this key that was bad; its file `why` says why

`incoming` is writable by any user and has the sticky bit, so a pod can neither list it nor touch
what another user put there.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from warmpod.compilecache.factors import KEY_CHARACTERS
from warmpod.compilecache.files import directory, open_file

PUBLISHED = "published"
INCOMING = "incoming"
SET_ASIDE = "set-aside"
WHY = "why"
PARTIAL = ".tmp-"
INCOMING_MODE = 0o1733

OFFER = "offer"
USED = "used"
BAD = "bad"

LONGEST_WHY = 300
_MOST_MARK_BYTES = 8192
_INCOMING = re.compile(
    rf"(?P<kind>{OFFER}|{USED}|{BAD})-(?P<key>[0-9a-f]{{{KEY_CHARACTERS}}})(?P<rest>-[0-9a-f]{{8}})?"
)


@dataclass(frozen=True)
class Arrival:
    """Something in `incoming`: an offer, or a mark."""

    kind: str
    key: str
    name: str


@dataclass(frozen=True)
class Store:
    """A store as one process sees it; not every process sees all of it."""

    root: Path

    @property
    def published(self) -> Path:
        return self.root / PUBLISHED

    @property
    def incoming(self) -> Path:
        return self.root / INCOMING

    @property
    def set_aside(self) -> Path:
        return self.root / SET_ASIDE


def arrival(name: str) -> Arrival | None:
    """What a name in `incoming` says; None for anything else, unfinished offers too."""
    found = _INCOMING.fullmatch(name)
    if found is None or (found["rest"] is not None) != (found["kind"] == OFFER):
        return None
    return Arrival(found["kind"], found["key"], name)


def new_offer(key: str) -> tuple[str, str]:
    """Two names in `incoming`: to write an offer under, and to rename it to."""
    random = secrets.token_hex(4)
    return f"{PARTIAL}{key}-{random}", f"{OFFER}-{key}-{random}"


def leave_mark(incoming: Path, kind: str, key: str, why: str = "") -> None:
    """One mark of a kind and key is enough: an older one stays. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(incoming / f"{kind}-{key}", flags, 0o644)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, 0o644)
        os.write(descriptor, json.dumps({"why": why[:LONGEST_WHY]}).encode())
    finally:
        os.close(descriptor)


def read_mark(incoming: Path, mark: Arrival) -> str:
    """Why; empty where it does not say, or is written at this moment. Raises OSError."""
    with directory(incoming) as folder:
        descriptor = open_file(mark.name, folder)
    try:
        data = os.read(descriptor, _MOST_MARK_BYTES)
    finally:
        os.close(descriptor)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    why = content.get("why") if isinstance(content, dict) else None
    if not isinstance(why, str):
        return ""
    return "".join(each for each in why if each.isprintable())[:LONGEST_WHY]
