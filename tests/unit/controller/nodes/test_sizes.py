"""Sizes of layers, asked of a registry that speaks the distribution API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.registry import Registry, digest_of, serving
from warmpod.controller.nodes.preflight import Layers
from warmpod.controller.nodes.sizes import KNOWN_SECONDS, Sizes, Unknown
from warmpod.registry.session import new_session

KEY = ("models", "llama")
OCI = "application/vnd.oci.image"
OCI_MANIFEST = f"{OCI}.manifest.v1+json"
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
TAGS: dict[str, Any] = {"plain": MANIFEST, "many": INDEX, "odd": {"layers": "none"}, "list": []}


@pytest.fixture
def registry() -> Iterator[Registry]:
    """Tags tell what is there."""
    with serving() as found:
        for tag, document in TAGS.items():
            found.put_manifest(tag, OCI_MANIFEST, content(document))
        found.put_manifest("arm", OCI_MANIFEST, content(EMPTY))
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


@pytest.mark.parametrize("tag", ["plain", "many"])
async def test_layers_by_whether_they_are_compressed(
    registry: Registry, asked: Asked, tag: str
) -> None:
    found = await asked.ask(f"{registry.host}/x:{tag}")
    assert found == Layers(plain=1000, compressed=234)


async def test_each_architecture_has_its_own(registry: Registry, asked: Asked) -> None:
    assert await asked.ask(f"{registry.host}/x:many", "arm64") == Layers(0, 0)
    assert isinstance(await asked.ask(f"{registry.host}/x:many", "riscv64"), Unknown)


@pytest.mark.parametrize("tag", ["absent", "odd", "list"])
async def test_what_cannot_be_known(registry: Registry, asked: Asked, tag: str) -> None:
    assert isinstance(await asked.ask(f"{registry.host}/x:{tag}"), Unknown)


async def test_a_registry_that_wants_a_password(registry: Registry, asked: Asked) -> None:
    registry.users = {}
    assert isinstance(await asked.ask(f"{registry.host}/x:plain"), Unknown)


async def test_an_unreachable_registry(asked: Asked) -> None:
    assert isinstance(await asked.ask("127.0.0.1:1/x:1"), Unknown)


async def test_answers_are_remembered(registry: Registry, asked: Asked) -> None:
    image = f"{registry.host}/x:plain"
    await asked.ask(image)
    asked.now += KNOWN_SECONDS - 1
    assert asked.sizes.lookup((image, "amd64"), KEY) == Layers(1000, 234)
    assert registry.count("GET /v2/x/manifests/") == 1
