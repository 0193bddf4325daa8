"""What an image tag stands for: asks the image's registry for the manifest's digest.

Anonymous on purpose: reading pull secrets would need rights on Secrets. A registry that wants
credentials, or cannot be reached from the operator, leaves the tag as it is written; the kubelet
with its own credentials has the last word.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp

from warmpod.controller.views import Key

logger = logging.getLogger(__name__)

#: Seconds for one request to a registry.
TIMEOUT: Final = aiohttp.ClientTimeout(total=5)
#: Seconds an answer is believed. Tags move, and a missing image may be pushed at any moment: who
#: moves a tag and then changes a spec gets the new digest. Many WarmModels of one image that appear
#: together are asked for once.
FOUND_SECONDS: Final = 10.0
FAILED_SECONDS: Final = 20.0
#: Bytes of an answer that are read. The distribution specification lets a registry refuse manifests
#: above 4 MiB; a registry that sends without end must not fill the operator's memory.
ANSWER_BYTES: Final = 4 * 1024 * 1024
#: Answers that are remembered.
REMEMBERED: Final = 1000

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


@dataclass(frozen=True, slots=True)
class Reference:
    host: str
    repository: str
    tag: str
    digest: str

    @property
    def manifest_url(self) -> str:
        host = "registry-1.docker.io" if self.host == "docker.io" else self.host
        scheme = "http" if _is_local(host) else "https"
        return f"{scheme}://{host}/v2/{self.repository}/manifests/{self.digest or self.tag}"


def parse_reference(image: str) -> Reference:
    """`[host/]repository[:tag][@digest]`, with Docker's defaults as the kubelet applies them."""
    name, _, digest = image.partition("@")
    head, slash, rest = name.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        host, path = head, rest
    else:
        host, path = "docker.io", name
    repository, colon, tag = path.rpartition(":")
    if not colon:
        repository, tag = path, "latest"
    if host == "docker.io" and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(host, repository, tag, digest)


def _is_local(host: str) -> bool:
    """Hosts for which container tools speak plain HTTP."""
    name = host.rpartition(":")[0] or host
    return name == "localhost" or name.startswith("127.") or name.endswith(".local")


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
        token = await _anonymous_token(session, challenge)
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
        body = await _body(response)
        digest = response.headers.get("Docker-Content-Digest", "")
        if response.status == 200 and method == "GET" and not _DIGEST.fullmatch(digest):
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if not _DIGEST.fullmatch(digest):
            digest = ""
        return response.status, digest, response.headers.get("WWW-Authenticate", "")


async def _anonymous_token(session: aiohttp.ClientSession, challenge: str) -> str:
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
        body = json.loads(await _body(response))
        if not isinstance(body, dict):
            return ""
        return str(body.get("token") or body.get("access_token") or "")


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Raises ValueError for one that is too long."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_BYTES:
            raise ValueError(f"the answer is longer than {ANSWER_BYTES} bytes")
    return bytes(body)


class Resolver:
    """Answers from memory and asks in the background, so that no worker waits for a registry."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        notify: Callable[[Key], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._notify = notify
        self._clock = clock
        self._answers: OrderedDict[str, tuple[float, Resolution]] = OrderedDict()
        self._asking: dict[str, tuple[asyncio.Task[None], set[Key]]] = {}

    def lookup(self, image: str, key: Key) -> Resolution | None:
        """The answer, or None while it is being asked for; then `key` is notified of it."""
        known = self._answers.get(image)
        if known is not None and self._clock() < known[0]:
            return known[1]
        if image in self._asking:
            self._asking[image][1].add(key)
        else:
            self._asking[image] = (asyncio.create_task(self._look_up(image)), {key})
        # A stale answer beats none: a condition would flap while the registry is asked again.
        return known[1] if known is not None and not isinstance(known[1], Resolved) else None

    async def close(self) -> None:
        tasks = [task for task, _ in self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, image: str) -> None:
        try:
            answer = await resolve(self._session, image)
        except Exception as error:
            # Without an answer each notified WarmModel would ask again at once.
            logger.exception("image %s", image)
            answer = Unresolved(f"{image}: {type(error).__name__} while its registry was asked")
        logger.info("image %s: %s", image, answer)
        self._remember(image, answer)
        _, waiting = self._asking.pop(image)
        for key in waiting:
            self._notify(key)

    def _remember(self, image: str, answer: Resolution) -> None:
        seconds = FOUND_SECONDS if isinstance(answer, Resolved) else FAILED_SECONDS
        self._answers[image] = (self._clock() + seconds, answer)
        self._answers.move_to_end(image)
        while len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)
