"""The checks of content that sources offer, beside the SHA-256 that warmpod itself keeps."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Running(Protocol):
    def update(self, data: Buffer, /) -> None: ...

    def hexdigest(self) -> str: ...


@dataclass(frozen=True)
class Digest:
    """`kind` is one of KINDS; `value` lower-case hex."""

    kind: str
    value: str


class _Crc:
    def __init__(self, step: Callable[[Buffer, int], int], hex_digits: int) -> None:
        self._step = step
        self._hex_digits = hex_digits
        self._value = 0

    def update(self, data: Buffer, /) -> None:
        self._value = self._step(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:0{self._hex_digits}x}"


def _crc32c(_: int) -> Running:
    from awscrt import checksums

    return _Crc(lambda data, value: checksums.crc32c(bytes(data), value), 8)


def _crc64nvme(_: int) -> Running:
    from awscrt import checksums

    return _Crc(lambda data, value: checksums.crc64nvme(bytes(data), value), 16)


def _git_blob(size: int) -> Running:
    # git's own name for content; not a matter of security here, SHA-256 is kept beside it.
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


# Each takes the size of the file in bytes.
KINDS: dict[str, Callable[[int], Running]] = {
    "sha256": lambda _: hashlib.sha256(),
    "sha1": lambda _: hashlib.sha1(usedforsecurity=False),
    "md5": lambda _: hashlib.md5(usedforsecurity=False),
    "git-blob": _git_blob,
    "crc32": lambda _: _Crc(zlib.crc32, 8),
    "crc32c": _crc32c,
    "crc64nvme": _crc64nvme,
}


class Hashes:
    """SHA-256 of a file, and in the same pass what its source promises."""

    def __init__(self, size: int, promised: Digest | None) -> None:
        self._sha256 = hashlib.sha256()
        self._promised = promised
        self._other: Running = self._sha256
        if promised is not None and promised.kind != "sha256":
            self._other = KINDS[promised.kind](size)

    def update(self, data: Buffer) -> None:
        self._sha256.update(data)
        if self._other is not self._sha256:
            self._other.update(data)

    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def mismatch(self) -> str | None:
        """What differs, or None."""
        found = self._other.hexdigest()
        if self._promised is None or found == self._promised.value:
            return None
        kind, value = self._promised.kind, self._promised.value
        return f"{kind} is {found[:12]}…, the source says {value[:12]}…"
