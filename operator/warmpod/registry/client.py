"""Requests to one repository of a registry, authorized and repeated."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from warmpod.registry.answers import Answer, bounded_body, digest_of, document_in
from warmpod.registry.authorization import Authorization
from warmpod.registry.credentials import Credential
from warmpod.registry.errors import Denied, NotFound, RegistryError, Unreachable
from warmpod.registry.reference import Reference, parse_reference
from warmpod.registry.session import new_session, proxy_for

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
ACCEPT = ", ".join(
    (
        *INDEX_TYPES,
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
#: Seconds without a byte after which a request counts as lost.
SILENCE_SECONDS = 60
#: Seconds before a request is repeated, one after another.
DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
REPEATED = frozenset((408, 429, 500, 502, 503, 504))
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Client:
    """Names what failed by `reference.name`. `session` is one of `new_session`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        reference: Reference,
        credential: Credential | None,
        actions: str = "pull",
        delays: Iterable[float] = DELAYS,
    ) -> None:
        """`actions` as in a token's scope: `pull` or `pull,push`. Each of `delays`, in seconds, is
        followed by another attempt."""
        self.reference = reference
        self.delays = tuple(delays)
        self._session = session
        self._base = URL(reference.base_url)
        scope = f"repository:{reference.repository}:{actions}"
        self._authorization = Authorization(credential, scope)

    def url(self, path: str) -> URL:
        return URL(f"{self._base}/{path}", encoded=True)

    async def send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str] | None = None,
        data: bytes | AsyncIterator[bytes] | None = None,
        silence: float | None = SILENCE_SECONDS,
    ) -> Answer:
        """One request, and a second one when the registry wants another authorization first (not
        when `data` is a stream, which can be sent only once). Raises what aiohttp raises."""
        used = self._authorization.value
        answer = await self._once(method, url, headers, data, silence, used)
        if answer.status != 401:
            return answer
        challenge = answer.headers.get("WWW-Authenticate", "")
        renewed = await self._authorization.renew(self._session, challenge, used)
        if not renewed or isinstance(data, AsyncIterator):
            return answer
        return await self._once(method, url, headers, data, silence, self._authorization.value)

    async def _once(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str] | None,
        data: bytes | AsyncIterator[bytes] | None,
        silence: float | None,
        authorization: str,
    ) -> Answer:
        sent = dict(headers or {})
        # An upload may go to a storage service, whose business our credentials are not.
        if authorization and url.origin() == self._base.origin():
            sent["Authorization"] = authorization
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=silence)
        async with self._session.request(
            method, url, headers=sent, data=data, timeout=timeout, proxy=proxy_for(url)
        ) as response:
            body = await bounded_body(response)
            return Answer(response.status, response.headers, body, response.url)

    async def ask(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        silence: float = SILENCE_SECONDS,
    ) -> Answer:
        """Repeated until there is an answer that is not the registry's own trouble. Raises
        Unreachable in the end, and Denied."""
        for delay in (*self.delays, None):
            try:
                answer = await self.send(method, url, headers, data, silence)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                trouble, wait = str(error) or type(error).__name__, delay
            else:
                if answer.status not in REPEATED:
                    return self.permitted(answer)
                trouble, wait = str(answer), answer.retry_after or delay
            if delay is None or wait is None:
                raise Unreachable(f"registry {self.reference.host}: {trouble}")
            await asyncio.sleep(wait)
        raise AssertionError("the last delay is None")

    def permitted(self, answer: Answer) -> Answer:
        """Raises Denied for 401 and 403."""
        if answer.status not in (401, 403):
            return answer
        if self._authorization.known:
            why = "refuses the credentials it was given"
        else:
            why = "wants credentials, and there are none"
        raise Denied(f"{self.reference.name}: the registry {why} ({answer})")

    async def manifest(self, which: str) -> bytes:
        """A manifest or index, by tag or digest; compared with a digest. Raises NotFound."""
        answer = await self.ask("GET", self.url(f"manifests/{which}"), {"Accept": ACCEPT})
        return self._content(answer, which)

    async def digest(self, tag: str) -> str:
        """What a tag stands for. Raises NotFound."""
        answer = await self.ask("HEAD", self.url(f"manifests/{tag}"), {"Accept": ACCEPT})
        digest = answer.headers.get("Docker-Content-Digest", "")
        if answer.status == 200 and _DIGEST.fullmatch(digest):
            return digest
        # Some registries answer HEAD without a digest, or not at all.
        return digest_of(await self.manifest(tag))

    async def blob(self, digest: str) -> bytes:
        """A small blob, compared with its digest. Raises NotFound."""
        return self._content(await self.ask("GET", self.url(f"blobs/{digest}")), digest)

    async def has_blob(self, digest: str) -> bool:
        answer = await self.ask("HEAD", self.url(f"blobs/{digest}"))
        return answer.status == 200

    async def put_manifest(self, which: str, media_type: str, content: bytes) -> None:
        answer = await self.ask(
            "PUT", self.url(f"manifests/{which}"), {"Content-Type": media_type}, content
        )
        if answer.status not in (200, 201, 202):
            raise RegistryError(f"{self.reference.name}: the manifest is refused: {answer}")

    async def referrers(self, digest: str, artifact_type: str) -> list[dict[str, Any]]:
        """Descriptors of the artifacts that belong to a manifest, also from registries that know
        only the tag which stands in for the list."""
        url = self.url(f"referrers/{digest}").with_query(artifactType=artifact_type)
        answer = await self.ask("GET", url, {"Accept": INDEX_TYPES[0]})
        if answer.status == 200:
            body = answer.body
        else:
            try:
                body = await self.manifest(digest.replace(":", "-"))
            except NotFound:
                return []
        listed = document_in(body).get("manifests")
        entries = [entry for entry in listed if isinstance(entry, dict)] if listed else []
        # A registry may leave the filter to us.
        return [entry for entry in entries if entry.get("artifactType") == artifact_type]

    def _content(self, answer: Answer, which: str) -> bytes:
        name = f"{self.reference.name}{'@' if ':' in which else ':'}{which}"
        if answer.status == 404:
            raise NotFound(f"{name}: the registry does not have it")
        if answer.status != 200:
            raise RegistryError(f"{name}: the registry answers {answer}")
        if which.startswith("sha256:") and digest_of(answer.body) != which:
            raise RegistryError(f"{name}: the registry sends other content than that digest's")
        return answer.body


@asynccontextmanager
async def opened(
    image: str,
    credential: Credential | None,
    actions: str = "pull",
    delays: Iterable[float] = DELAYS,
) -> AsyncIterator[Client]:
    """A client for the repository of `image`."""
    async with new_session() as session:
        yield Client(session, parse_reference(image), credential, actions, delays)
