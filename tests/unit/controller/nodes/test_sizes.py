"""Sizes of layers, asked of a registry that speaks the distribution API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from warmpod.controller.nodes.preflight import Layers
from warmpod.controller.nodes.sizes import KNOWN_SECONDS, Sizes, Unknown
from warmpod.registry.answers import digest_of
from warmpod.registry.session import new_session

KEY = ("models", "llama")
OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"


def layer(size: int, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "size": size, "digest": "sha256:" + "1" * 64}


MANIFEST = {
    "layers": [
        layer(1000, f"{OCI}.layer.v1.tar"),
        layer(200, f"{OCI}.layer.v1.tar+gzip"),
        layer(30, f"{OCI}.layer.v1.tar+zstd"),
        layer(4, f"{DOCKER}.image.rootfs.diff.tar.gzip"),
    ]
}
EMPTY: dict[str, Any] = {"layers": []}


def content(document: object) -> bytes:
    return json.dumps(document).encode()


AMD64, ARM64 = digest_of(content(MANIFEST)), digest_of(content(EMPTY))
INDEX = {
    "manifests": [
        {"digest": ARM64, "platform": {"os": "linux", "architecture": "arm64"}},
        {"digest": AMD64, "platform": {"os": "linux", "architecture": "amd64"}},
        {"digest": "sha256:why", "platform": {"os": "unknown", "architecture": "unknown"}},
    ]
}
ANSWERS: dict[str, Any] = {
    "plain/1": MANIFEST,
    "many/1": INDEX,
    f"many/{AMD64}": MANIFEST,
    f"many/{ARM64}": EMPTY,
    "token/1": INDEX,
    f"token/{AMD64}": MANIFEST,
    "odd/1": {"layers": "none"},
    "list/1": [],
}


@dataclass
class FakeRegistry:
    host: str = ""
    requests: list[str] = field(default_factory=list)

    async def manifest(self, request: web.Request) -> web.Response:
        name = f"{request.match_info['repository']}/{request.match_info['tag']}"
        self.requests.append(name)
        if name.startswith("token/") and request.headers.get("Authorization") != "Bearer anon":
            challenge = f'Bearer realm="http://{self.host}/token",service="r"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if name == "private/1":
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        found = ANSWERS.get(name)
        return web.Response(status=404) if found is None else web.Response(body=content(found))

    async def token(self, _: web.Request) -> web.Response:
        return web.json_response({"token": "anon"})


@pytest.fixture
async def fake() -> AsyncIterator[FakeRegistry]:
    found = FakeRegistry()
    app = web.Application()
    app.router.add_get("/v2/{repository:.+}/manifests/{tag}", found.manifest)
    app.router.add_get("/token", found.token)
    async with TestServer(app) as server:
        found.host = f"127.0.0.1:{server.port}"
        yield found


@dataclass
class Asked:
    sizes: Sizes
    told: asyncio.Queue[tuple[str, str]]
    now: float = 0.0

    async def ask(self, image: str, architecture: str = "amd64") -> Layers | Unknown:
        assert self.sizes.lookup((image, architecture), KEY) is None
        assert await asyncio.wait_for(self.told.get(), 10) == KEY
        found = self.sizes.lookup((image, architecture), KEY)
        assert found is not None
        return found


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    found: list[Asked] = []
    async with new_session() as session:
        sizes = Sizes(session, told.put_nowait, clock=lambda: found[0].now)
        found.append(Asked(sizes, told))
        yield found[0]
        await sizes.close()


@pytest.mark.parametrize("repository", ["plain", "many", "token"])
async def test_layers_by_whether_they_are_compressed(
    fake: FakeRegistry, asked: Asked, repository: str
) -> None:
    found = await asked.ask(f"{fake.host}/{repository}:1")
    assert found == Layers(plain=1000, compressed=234)


async def test_each_architecture_has_its_own(fake: FakeRegistry, asked: Asked) -> None:
    assert await asked.ask(f"{fake.host}/many:1", "arm64") == Layers(0, 0)
    assert isinstance(await asked.ask(f"{fake.host}/many:1", "riscv64"), Unknown)


@pytest.mark.parametrize("repository", ["absent", "private", "odd", "list"])
async def test_what_cannot_be_known(fake: FakeRegistry, asked: Asked, repository: str) -> None:
    assert isinstance(await asked.ask(f"{fake.host}/{repository}:1"), Unknown)


async def test_an_unreachable_registry(asked: Asked) -> None:
    assert isinstance(await asked.ask("127.0.0.1:1/x:1"), Unknown)


async def test_answers_are_remembered(fake: FakeRegistry, asked: Asked) -> None:
    image = f"{fake.host}/plain:1"
    await asked.ask(image)
    asked.now += KNOWN_SECONDS - 1
    assert asked.sizes.lookup((image, "amd64"), KEY) == Layers(1000, 234)
    assert fake.requests == ["plain/1"]
