"""Sends a blob, and goes on after a cut where the registry says that it stopped.

The blob goes as one stream (POST, PATCH, PUT), as `docker push` does it, because there are
registries that take no pieces, or only small ones. Only what is left after a cut is sent with its
range. A registry that does not say how far it got is sent the blob again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

import aiohttp
from yarl import URL

from warmpod.registry.answers import Answer
from warmpod.registry.client import REPEATED, Client
from warmpod.registry.errors import RegistryError, Unreachable
from warmpod.registry.reference import Reference

#: Seconds without a byte taken, after which a connection counts as cut.
STALL_SECONDS = 120
#: Seconds for the registry to store a whole blob; some copy it then.
COMMIT_SECONDS = 900
_RANGE = re.compile(r"(?:bytes=)?0-(\d+)")

# Told of bytes that the registry took; less than 0 when it lost some again.
Watch = Callable[[int], None]


class Content(Protocol):
    """A blob that can be read from any position, again and again."""

    @property
    def size(self) -> int: ...

    def read(self, start: int) -> Iterator[bytes]: ...


class _Interrupted(Exception):
    """This attempt is over; another one may succeed. `location`: where the upload goes on."""

    def __init__(self, why: object, location: URL | None, wait: float | None = None) -> None:
        super().__init__(str(why) or type(why).__name__)
        self.location = location
        self.wait = wait


async def push_blob(client: Client, digest: str, content: Content, watch: Watch) -> bool:
    """False when the registry had the blob. Raises RegistryError: Unreachable when attempts
    without any progress have used up the client's delays."""
    upload = _Upload(client, digest, content, watch)
    failures, reached = 0, 0
    location: URL | None = None
    while True:
        try:
            return await upload.attempt(location)
        except _Interrupted as cut:
            # A line that is cut again and again still gets there, if each time some of it stays.
            failures = 1 if upload.offset > reached else failures + 1
            reached = max(reached, upload.offset)
            if failures > len(client.delays):
                name = f"{client.reference.name}@{digest[:19]}…"
                raise Unreachable(f"{name}: gave up after {failures} attempts: {cut}") from cut
            location = cut.location
            await asyncio.sleep(cut.wait or client.delays[failures - 1])


class _Upload:
    def __init__(self, client: Client, digest: str, content: Content, watch: Watch) -> None:
        self._client = client
        self._digest = digest
        self._content = content
        self._watch = watch
        self._told = 0
        # What the registry said it holds.
        self.offset = 0
        self._sent_any = False
        self._mismatched = False
        # Why the blob cannot be read, which aiohttp reports as a cut connection.
        self._unreadable: Exception | None = None

    async def attempt(self, location: URL | None) -> bool:
        """One upload from where the last one stopped to the end. Raises _Interrupted."""
        if location is not None:
            location = await self._resumed(location)
        if location is None:
            if await self._client.has_blob(self._digest):
                self._tell(self._content.size)
                return self._sent_any
            location = await self._begun()
        self._sent_any = True
        self._tell(self.offset)
        if self.offset < self._content.size:
            location = await self._stream(location)
        await self._commit(location)
        return True

    async def _begun(self) -> URL:
        self.offset = 0
        answer = await self._client.ask("POST", self._client.url("blobs/uploads/"))
        if answer.status != 202 or answer.location is None:
            raise RegistryError(_refusal(self._client.reference, answer))
        return answer.location

    async def _resumed(self, location: URL) -> URL | None:
        """None when the upload has to begin again."""
        answer = await self._client.ask("GET", location)
        held = _RANGE.fullmatch(answer.headers.get("Range", ""))
        if answer.status not in (200, 202, 204) or held is None:
            return None
        # Of nothing, registries say 0-0 as well.
        last = int(held[1])
        self.offset = min(last + 1 if last else 0, self._content.size)
        return answer.location or location

    async def _stream(self, location: URL) -> URL:
        end = self._content.size
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(end - self.offset),
        }
        if self.offset:
            headers["Content-Range"] = f"{self.offset}-{end - 1}"
        try:
            async with asyncio.timeout(STALL_SECONDS) as guard:
                answer = await self._client.send(
                    "PATCH", location, headers, self._pieces(guard), silence=None
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if self._unreadable is not None:
                raise self._unreadable from error
            raise _Interrupted(error, location) from error
        if answer.status == 401:
            # The token ran out; the next attempt has another one.
            raise _Interrupted(answer, location)
        if answer.status in (404, 416):
            raise _Interrupted(answer, None)
        return self._accepted(answer, location, (202,)) or location

    async def _pieces(self, guard: asyncio.Timeout) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        pieces = self._content.read(self.offset)
        position = self.offset
        while piece := await asyncio.to_thread(self._next, pieces):
            guard.reschedule(loop.time() + STALL_SECONDS)
            yield piece
            position += len(piece)
            self._tell(position)

    def _next(self, pieces: Iterator[bytes]) -> bytes:
        """Empty at the end."""
        try:
            return next(pieces, b"")
        except Exception as error:
            self._unreadable = error
            raise

    async def _commit(self, location: URL) -> None:
        joint = "&" if location.query_string else "?"
        url = URL(f"{location}{joint}digest={self._digest}", encoded=True)
        try:
            answer = await self._client.send("PUT", url, data=b"", silence=COMMIT_SECONDS)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Interrupted(error, location) from error
        if answer.status in (404, 416):
            raise _Interrupted(answer, None)
        if answer.status == 400 and not self._mismatched:
            # A registry that restarted meanwhile may compare the digest with the nothing it has.
            self._mismatched = True
            raise _Interrupted(answer, None)
        self._accepted(answer, location, (200, 201, 204))

    def _accepted(self, answer: Answer, location: URL, expected: tuple[int, ...]) -> URL | None:
        if answer.status in expected:
            return answer.location
        if answer.status in REPEATED:
            raise _Interrupted(answer, location, answer.retry_after)
        self._client.permitted(answer)
        raise RegistryError(_refusal(self._client.reference, answer))

    def _tell(self, position: int) -> None:
        self._watch(position - self._told)
        self._told = position


def _refusal(reference: Reference, answer: Answer) -> str:
    match answer.status:
        case 404:
            hint = "; does the repository have to be created first?"
        case 413:
            hint = "; a proxy in front of the registry limits the size of a request"
        case 400:
            hint = "; was a file changed while it was packed?"
        case _:
            hint = ""
    return f"{reference.name}: the registry refuses the blob: {answer}{hint}"
