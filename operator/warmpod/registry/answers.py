"""What a registry answers, bounded and read with suspicion."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from warmpod.registry.errors import RegistryError

#: Bytes of an answer that are read: the size up to which every registry takes a manifest.
ANSWER_BYTES = 4 * 1024 * 1024
#: Seconds that a registry may ask us to wait (Retry-After).
LONGEST_DELAY = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    url: URL

    @property
    def location(self) -> URL | None:
        """Where the registry wants the next request of an upload."""
        given = self.headers.get("Location")
        # Encoded as it is: some registries put signed state into it.
        try:
            return self.url.join(URL(given, encoded=True)) if given else None
        except ValueError as error:
            host = self.url.host
            raise RegistryError(f"registry {host} names an address that is none: {error}") from None

    @property
    def retry_after(self) -> float | None:
        given = self.headers.get("Retry-After", "")
        return min(float(given), LONGEST_DELAY) if given.isdecimal() else None

    def __str__(self) -> str:
        """The status, and what the registry says about it."""
        try:
            errors = json.loads(self.body)["errors"]
            said = "; ".join(f"{e.get('code', '')} {e.get('message', '')}".strip() for e in errors)
        except (ValueError, KeyError, TypeError, AttributeError):
            said = self.body[:200].decode(errors="replace").strip()
        return f"{self.status} {said}".strip()


async def bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """Raises RegistryError for an answer that is too long."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > ANSWER_BYTES:
            raise RegistryError(f"{response.url} sends more than {ANSWER_BYTES} bytes")
    return bytes(body)


def document_in(content: bytes) -> dict[str, Any]:
    """A JSON object. Raises RegistryError for anything else."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RegistryError(f"the registry sends a manifest that is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise RegistryError("the registry sends a manifest that is not a JSON object")
    return document


def of_platform(index: Mapping[str, Any], architecture: str) -> Iterator[str]:
    """Digests of the manifests that a Linux node of that architecture takes, the first one first.
    `architecture` as in the node's label kubernetes.io/arch."""
    for entry in index.get("manifests") or ():
        where = entry.get("platform") or {}
        if (where.get("os"), where.get("architecture")) == ("linux", architecture):
            yield str(entry.get("digest"))


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
