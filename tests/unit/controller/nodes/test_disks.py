"""Kubelets over TLS: a real server, with and without a certificate that can be trusted."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from support.certificates import make_certificates
from unit.controller.builders import node_view
from warmpod.controller.nodes.disks import (
    KNOWN_SECONDS,
    UNKNOWN_SECONDS,
    Disks,
    Kubelet,
    Unknown,
    image_disk,
    kubelet_of,
)
from warmpod.controller.nodes.preflight import Disk

KEY = ("models", "llama")
SUMMARY = {
    "node": {
        "nodeName": "n1",
        "fs": {"availableBytes": 1, "capacityBytes": 2},
        "runtime": {"imageFs": {"availableBytes": 30, "capacityBytes": 100, "usedBytes": 70}},
    }
}


CONFIGZ = {"kubeletconfig": {"imageGCHighThresholdPercent": 95}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("certificates")
    make_certificates(found, "kubelet", "stranger")
    return found


@dataclass
class FakeKubelet:
    """Asks for a token and tells how full the disk is."""

    answer: Any = field(default_factory=lambda: SUMMARY)
    status: int = 200
    configz: Any = field(default_factory=lambda: CONFIGZ)
    seen: list[str] = field(default_factory=list)

    async def stats(self, request: web.Request) -> web.Response:
        self.seen.append(request.headers.get("Authorization", ""))
        return web.json_response(self.answer, status=self.status)

    async def settings(self, _: web.Request) -> web.Response:
        if self.configz is None:
            return web.Response(status=403)
        return web.json_response(self.configz)

    @asynccontextmanager
    async def serve(self, folder: Path, certificate: str = "kubelet") -> AsyncIterator[Kubelet]:
        app = web.Application()
        app.router.add_get("/stats/summary", self.stats)
        app.router.add_get("/configz", self.settings)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
        server = TestServer(app, scheme="https")
        await server.start_server(ssl=context)
        try:
            yield Kubelet("n1", "127.0.0.1", server.port or 0)
        finally:
            await server.close()


class Asked:
    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        configuration = Configuration(host="https://x", ssl_ca_cert=str(folder / "kubelet.crt"))
        configuration.api_key["BearerToken"] = "bearer secret\n"
        self.disks = Disks(configuration, self.told.put_nowait, clock=lambda: self.now)

    async def ask(self, kubelet: Kubelet) -> Disk | Unknown:
        if self.disks.lookup(kubelet, KEY) is None or not self.told.empty():
            await asyncio.wait_for(self.told.get(), 10)
        found = self.disks.lookup(kubelet, KEY)
        assert found is not None
        return found


@pytest.fixture
async def asked(folder: Path) -> AsyncIterator[Asked]:
    found = Asked(folder)
    yield found
    await found.disks.close()


async def test_a_kubelet_tells(folder: Path, asked: Asked) -> None:
    fake = FakeKubelet()
    async with fake.serve(folder) as kubelet:
        assert await asked.ask(kubelet) == Disk(30, 100, 95)
        asked.now += KNOWN_SECONDS - 1
        assert await asked.ask(kubelet) == Disk(30, 100, 95)
        assert fake.seen == ["Bearer secret"]


@pytest.mark.parametrize("configz", [None, {}, {"kubeletconfig": "secret"}])
async def test_a_kubelet_that_does_not_tell_its_settings(
    folder: Path, asked: Asked, configz: Any
) -> None:
    async with FakeKubelet(configz=configz).serve(folder) as kubelet:
        assert await asked.ask(kubelet) == Disk(30, 100, 85)


async def test_no_token_goes_to_a_stranger(folder: Path, asked: Asked) -> None:
    fake = FakeKubelet()
    async with fake.serve(folder, "stranger") as kubelet:
        assert await asked.ask(kubelet) == Unknown()
        assert fake.seen == []


@pytest.mark.parametrize(
    ("answer", "status"),
    [(SUMMARY, 403), ({}, 200), ({"node": {"runtime": None}}, 200), ([], 200), ("no", 500)],
)
async def test_a_kubelet_that_does_not_tell(
    folder: Path, asked: Asked, answer: Any, status: int
) -> None:
    async with FakeKubelet(answer, status).serve(folder) as kubelet:
        assert await asked.ask(kubelet) == Unknown()


async def test_it_is_said_once(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = Kubelet("n1", "127.0.0.1", 1)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await asked.ask(nowhere) == Unknown()
            asked.now += UNKNOWN_SECONDS + 1
            asked.disks.lookup(nowhere, KEY)
            await asked.told.get()
    assert [record.getMessage()[:8] for record in caplog.records] == ["node n1:"]


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("10.0.0.7", "https://10.0.0.7:10250/stats/summary"),
        ("fd00::7", "https://[fd00::7]:10250/stats/summary"),
    ],
)
def test_where_a_kubelet_listens(address: str, url: str) -> None:
    assert kubelet_of(node_view("n1", address=address)).url("stats/summary") == url


def test_the_images_file_system_is_what_counts() -> None:
    assert image_disk(SUMMARY) == Disk(30, 100)
