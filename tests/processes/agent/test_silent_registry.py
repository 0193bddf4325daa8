"""A registry that takes every connection and never answers holds up one set of weights, and
neither the others nor the end of the agent."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
from scene import Scene, make_source, scene

from support import signing
from support.until import until
from warmpod.agent.config import Medium, WeightSet


@asynccontextmanager
async def silent_registry() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Its host, and whether it was asked."""
    asked = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        asked.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"127.0.0.1:{port}", asked


async def test_it_holds_up_nothing_else(tmp_path: Path) -> None:
    async with (
        silent_registry() as (host, asked),
        scene(tmp_path, Medium.NODE_MEMORY, remote=False) as node,
    ):
        draft = tmp_path / "draft"
        make_source(draft)
        verify = {"image": f"{host}/models/draft:1", "publicKey": signing.Key().pem}
        signed = WeightSet("draft", draft, key="d", verify=verify)
        node.config = replace(node.config, sets=(*node.config.sets, signed))
        agent = await node.start()
        await until(lambda: asked.is_set(), lambda: "the registry was not asked")
        await until_filled(node)
        assert node.api is not None
        node.api.warm_models.clear()
        await agent.end(signal.SIGTERM)
        left = [path for path in node.config.node_root.iterdir() if path.name != ".lock"]
        assert [path for path in left if any(path.iterdir())] == []


async def until_filled(node: Scene) -> None:
    """Wait until the set whose registry need not be asked is resident."""
    url = f"http://127.0.0.1:{node.config.port}"
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}/status") as answer:
                tiny, draft = (await answer.json())["sets"]
            async with session.get(f"{url}/readyz") as answer:
                assert answer.status == 503
            assert not draft["ready"]
            if tiny["ready"]:
                return
            await asyncio.sleep(0.05)
