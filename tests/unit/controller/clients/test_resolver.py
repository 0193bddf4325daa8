"""Digest resolution against a registry that behaves in all the ways registries do."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from warmpod.controller.clients import resolver
from warmpod.controller.clients.resolver import (
    FAILED_SECONDS,
    FOUND_SECONDS,
    NotFound,
    Resolution,
    Resolved,
    Resolver,
    Unresolved,
    resolve,
)
from warmpod.registry.answers import ANSWER_BYTES
from warmpod.registry.session import new_session

DIGEST = "sha256:" + "a" * 64
MANIFEST = b'{"schemaVersion": 2}'
OF_MANIFEST = "sha256:" + hashlib.sha256(MANIFEST).hexdigest()


@dataclass
class FakeRegistry:
    host: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    accepted: str = ""
    token_served: bool = True
    token_answer: str = '{"token": "anonymous"}'

    async def manifest(self, request: web.Request) -> web.Response:
        repository, tag = request.match_info["repository"], request.match_info["tag"]
        self.requests.append((request.method, f"{repository}:{tag}"))
        self.accepted = request.headers.get("Accept", "")
        headers = {"Docker-Content-Digest": DIGEST}
        match repository:
            case "plain":
                return web.Response(body=MANIFEST, headers=headers)
            case "silent":  # no digest in any header
                return web.Response(body=MANIFEST)
            case "no-head" if request.method == "HEAD":
                return web.Response(status=405)
            case "no-head":
                return web.Response(body=MANIFEST, headers=headers)
            case "lying":
                return web.Response(body=MANIFEST, headers={"Docker-Content-Digest": "sha256:x"})
            case "token":
                return self._with_token(request, headers)
            case "private":
                return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
            case "endless":
                return web.Response(body=b" " * (ANSWER_BYTES + 1))
        return web.Response(status={"forbidden": 403, "broken": 500}.get(repository, 404))

    def _with_token(self, request: web.Request, headers: dict[str, str]) -> web.Response:
        if request.headers.get("Authorization") == "Bearer anonymous":
            return web.Response(body=MANIFEST, headers=headers)
        realm = f'realm="http://{self.host}/token",service="fake",scope="repository:token:pull"'
        return web.Response(status=401, headers={"WWW-Authenticate": f"Bearer {realm}"})

    async def token(self, request: web.Request) -> web.Response:
        assert dict(request.query) == {"service": "fake", "scope": "repository:token:pull"}
        if not self.token_served:
            return web.Response(status=403)
        return web.Response(text=self.token_answer, content_type="application/json")


@pytest.fixture
async def fake() -> AsyncIterator[FakeRegistry]:
    found = FakeRegistry()
    app = web.Application()
    app.router.add_route("*", "/v2/{repository:.+}/manifests/{tag}", found.manifest)
    app.router.add_get("/token", found.token)
    async with TestServer(app) as server:
        found.host = f"127.0.0.1:{server.port}"
        yield found


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with new_session() as found:
        yield found


@pytest.mark.parametrize(
    ("repository", "digest"),
    [
        ("plain", DIGEST),
        ("silent", OF_MANIFEST),
        ("no-head", OF_MANIFEST),
        ("lying", OF_MANIFEST),
        ("token", DIGEST),
    ],
)
async def test_resolved(
    fake: FakeRegistry, session: aiohttp.ClientSession, repository: str, digest: str
) -> None:
    assert await resolve(session, f"{fake.host}/{repository}:1.0") == Resolved(digest)
    assert "image.index" in fake.accepted
    assert "manifest.list" in fake.accepted


@pytest.mark.parametrize(
    ("repository", "kind", "words"),
    [
        ("missing", NotFound, "does not have it"),
        ("private", Unresolved, "401"),
        ("forbidden", Unresolved, "403"),
        ("broken", Unresolved, "500"),
        ("endless", Unresolved, "more than"),
    ],
)
async def test_not_resolved(
    fake: FakeRegistry,
    session: aiohttp.ClientSession,
    repository: str,
    kind: type[NotFound | Unresolved],
    words: str,
) -> None:
    answer = await resolve(session, f"{fake.host}/{repository}:1.0")
    assert isinstance(answer, kind)
    assert words in answer.message
    assert repository in answer.message


async def test_no_token_to_have(fake: FakeRegistry, session: aiohttp.ClientSession) -> None:
    fake.token_served = False
    assert isinstance(await resolve(session, f"{fake.host}/token:1.0"), Unresolved)


@pytest.mark.parametrize("answer", ["[]", "null", "{", '{"token": null}'])
async def test_a_token_server_that_talks_nonsense(
    fake: FakeRegistry, session: aiohttp.ClientSession, answer: str
) -> None:
    fake.token_answer = answer
    assert isinstance(await resolve(session, f"{fake.host}/token:1.0"), Unresolved)


async def test_a_digest_needs_no_registry(session: aiohttp.ClientSession) -> None:
    assert await resolve(session, f"nowhere.invalid/x@{DIGEST}") == Resolved(DIGEST)


async def test_unreachable(session: aiohttp.ClientSession) -> None:
    answer = await resolve(session, "127.0.0.1:1/x:1")
    assert isinstance(answer, Unresolved)
    assert "registry 127.0.0.1:1" in answer.message


async def test_a_registry_that_hangs(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "TIMEOUT_SECONDS", 0.1)
    async with Hanging() as port:
        assert isinstance(await resolve(session, f"127.0.0.1:{port}/x:1"), Unresolved)


class Hanging:
    """Takes connections and says nothing."""

    async def __aenter__(self) -> int:
        self.server = await asyncio.start_server(self._never, "127.0.0.1", 0)
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def _never(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()


# --- The memory -----------------------------------------------------------------------------------


@dataclass
class Memory:
    resolver: Resolver
    told: asyncio.Queue[tuple[str, str]]
    now: float = 0.0

    async def ask(self, image: str, key: tuple[str, str]) -> Resolution:
        """As a reconcile does: looks, is told, looks again."""
        assert self.resolver.lookup(image, key) is None
        assert await asyncio.wait_for(self.told.get(), 5) == key
        answer = self.resolver.lookup(image, key)
        assert answer is not None
        return answer


@pytest.fixture
async def memory(session: aiohttp.ClientSession) -> AsyncIterator[Memory]:
    told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    found: list[Memory] = []
    resolver = Resolver(session, told.put_nowait, clock=lambda: found[0].now)
    found.append(Memory(resolver, told))
    yield found[0]
    await resolver.close()


async def test_one_question_for_many_models(fake: FakeRegistry, memory: Memory) -> None:
    image = f"{fake.host}/plain:1"
    keys = [("ns", str(number)) for number in range(5)]
    for key in keys:
        assert memory.resolver.lookup(image, key) is None
    assert sorted([await memory.told.get() for _ in keys]) == keys
    assert memory.resolver.lookup(image, keys[0]) == Resolved(DIGEST)
    assert len(fake.requests) == 1


async def test_answers_are_believed_for_a_while(fake: FakeRegistry, memory: Memory) -> None:
    image, key = f"{fake.host}/plain:1", ("ns", "a")
    await memory.ask(image, key)
    memory.now += FOUND_SECONDS - 1
    assert memory.resolver.lookup(image, key) == Resolved(DIGEST)
    memory.now += 2
    await memory.ask(image, key)
    assert len(fake.requests) == 2


async def test_a_missing_image_is_asked_for_again_without_forgetting_that_it_is_missing(
    fake: FakeRegistry, memory: Memory
) -> None:
    image, key = f"{fake.host}/missing:1", ("ns", "a")
    assert isinstance(await memory.ask(image, key), NotFound)
    before = len(fake.requests)
    memory.now += FAILED_SECONDS + 1
    assert isinstance(memory.resolver.lookup(image, key), NotFound)
    await asyncio.wait_for(memory.told.get(), 5)
    assert len(fake.requests) > before


async def test_an_error_of_ours_is_an_answer_too(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> Resolution:
        raise RecursionError

    monkeypatch.setattr(resolver, "resolve", broken)
    answer = await memory.ask("registry.example.com/model:1", ("ns", "a"))
    assert answer == Unresolved(
        "registry.example.com/model:1: RecursionError while its registry was asked"
    )
