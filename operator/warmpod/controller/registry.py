"""What an image tag stands for: asks the image's registry for the manifest's digest.

Anonymous on purpose: reading pull secrets would need rights on Secrets. A registry that wants
credentials, or cannot be reached from the operator, leaves the tag as it is written; the kubelet
with its own credentials has the last word.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp

from warmpod.controller.answers import Answers
from warmpod.controller.views import Key
from warmpod.registry.reference import Reference, parse_reference

logger = logging.getLogger(__name__)

#: Seconds for one request to a registry.
TIMEOUT: Final = aiohttp.ClientTimeout(total=5)
#: Seconds an answer is believed. Tags move, and a missing image may be pushed at any moment: who
#: has just moved one and then changes a spec gets the new digest. Many WarmModels of one image
#: that appear together are asked for once.
FOUND_SECONDS: Final = 10.0
FAILED_SECONDS: Final = 20.0
#: Bytes of an answer that are read. The distribution specification lets a registry refuse manifests
#: above 4 MiB; a registry that sends without end must not fill the operator's memory.
ANSWER_BYTES: Final = 4 * 1024 * 1024
ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Resolved:
    digest: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """The registry says that it does not have the image."""

    message: str


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The registry gave no answer that helps."""

    message: str


Resolution = Resolved | NotFound | Unresolved


async def resolve(session: aiohttp.ClientSession, image: str) -> Resolution:
    """Asks the registry. Never raises for what a registry or a network may do."""
    reference = parse_reference(image)
    if reference.digest:
        return Resolved(reference.digest)
    try:
        return await _ask(session, reference, image)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        return Unresolved(
            f"{image}: registry {reference.host} cannot be asked: {error or type(error).__name__}"
        )


async def _ask(session: aiohttp.ClientSession, reference: Reference, image: str) -> Resolution:
    headers = {"Accept": ACCEPT}
    status, digest, challenge = await _manifest(session, "HEAD", reference, headers)
    if status == 401 and challenge:
        token = await anonymous_token(session, challenge)
        if token:
            headers["Authorization"] = f"Bearer {token}"
            status, digest, challenge = await _manifest(session, "HEAD", reference, headers)
    if status not in (200, 401, 403) or not digest:
        # Some registries answer HEAD without a digest, or not at all.
        status, digest, _ = await _manifest(session, "GET", reference, headers)
    if status == 200 and digest:
        return Resolved(digest)
    if status == 404:
        return NotFound(f"{image}: registry {reference.host} does not have it")
    return Unresolved(f"{image}: registry {reference.host} answered {status}")


async def _manifest(
    session: aiohttp.ClientSession, method: str, reference: Reference, headers: dict[str, str]
) -> tuple[int, str, str]:
    """Status, digest (may be empty) and authentication challenge (may be empty)."""
    async with session.request(
        method, reference.manifest_url, headers=headers, timeout=TIMEOUT
    ) as response:
        body = await read_body(response)
        digest = response.headers.get("Docker-Content-Digest", "")
        if response.status == 200 and method == "GET" and not _DIGEST.fullmatch(digest):
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if not _DIGEST.fullmatch(digest):
            digest = ""
        return response.status, digest, response.headers.get("WWW-Authenticate", "")


async def anonymous_token(session: aiohttp.ClientSession, challenge: str) -> str:
    """The distribution API's token flow without credentials; empty when there is none to have."""
    scheme, _, rest = challenge.partition(" ")
    fields = dict(_CHALLENGE.findall(rest))
    realm = fields.pop("realm", "")
    if scheme.lower() != "bearer" or not realm:
        return ""
    fields.pop("error", None)
    async with session.get(realm, params=fields, timeout=TIMEOUT) as response:
        if response.status != 200:
            return ""
        body = json.loads(await read_body(response))
        if not isinstance(body, dict):
            return ""
        return str(body.get("token") or body.get("access_token") or "")


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """Raises ValueError for one that is too long."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_BYTES:
            raise ValueError(f"the answer is longer than {ANSWER_BYTES} bytes")
    return bytes(body)


class Resolver(Answers[str, Resolution]):
    """What tags stand for, by image."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        notify: Callable[[Key], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        async def ask(image: str) -> Resolution:
            answer = await resolve(session, image)
            logger.info("image %s: %s", image, answer)
            return answer

        super().__init__(
            ask, notify, seconds=_seconds, failed=_failed, outdated=_outdated, clock=clock
        )


def _seconds(answer: Resolution) -> float:
    return FOUND_SECONDS if isinstance(answer, Resolved) else FAILED_SECONDS


def _failed(image: str, error: Exception) -> Resolution:
    return Unresolved(f"{image}: {type(error).__name__} while its registry was asked")


def _outdated(answer: Resolution) -> Resolution | None:
    """A stale answer beats none: a condition would flap while the registry is asked again."""
    return None if isinstance(answer, Resolved) else answer
