"""Files that somebody writes to while the agent reads others, or while there is no agent: what it
says is of the files as they are when it says so."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from scene import SHARD_BYTES, Scene, scene
from test_replaced import by_rename, node_path

from warmpod.agent.config import Medium
from warmpod.protocol import RECEIPT_NAME, RESIDENT_CONDITION
from warmpod.weights.manifest import MANIFEST_NAME

FIRST = "model-0.safetensors"


def put(path: Path, content: bytes) -> None:
    """In place and of the same size, as with `dd conv=notrunc`."""
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(content)


def damaged(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def message(node: Scene) -> str:
    assert node.api is not None
    return str(node.api.last(RESIDENT_CONDITION).get("message"))


async def until_read(node: Scene, files: float) -> None:
    """Until the agent has read, copied or verified so many shards of this stage, one by one."""
    url = f"http://127.0.0.1:{node.config.port}/status"
    async with aiohttp.ClientSession() as session, asyncio.timeout(20):
        while True:
            async with session.get(url) as answer:
                (state,) = (await answer.json())["sets"]
            if state["stage"] == "verifying" and state["stageBytes"] > files * SHARD_BYTES:
                return
            assert state["stage"] != "checked", "it was read before anybody could write to it"
            await asyncio.sleep(0.005)


async def test_a_bad_file_that_is_put_right_while_others_are_copied(tmp_path: Path) -> None:
    async with scene(tmp_path, Medium.NODE_MEMORY, remote=False) as node:
        file = tmp_path / "source" / FIRST
        right = file.read_bytes()
        put(file, damaged(right))
        agent = await node.start()
        await until_read(node, 2.2)
        put(file, right)
        await node.until_resident()
        assert node.complaints() == []
        await agent.end(signal.SIGTERM)


def nothing(_: Scene) -> None:
    """The files come with the node."""


def unread_copy(node: Scene) -> None:
    """As after a start of the node: all is there, and nobody has read it."""
    (node.read_by_engines / RECEIPT_NAME).unlink()


@pytest.mark.parametrize(
    ("medium", "remote"),
    [(Medium.IMAGE, False), (Medium.POD_MEMORY, False), (Medium.IMAGE, True)],
)
async def test_a_file_that_is_damaged_while_others_are_read(
    tmp_path: Path, medium: Medium, remote: bool
) -> None:
    async with scene(tmp_path, medium, remote=remote) as node:
        if remote:
            agent = await node.start()
            await node.until_resident()
            await agent.end(signal.SIGKILL)
            unread_copy(node)
        agent = await node.start()
        file = node.read_by_engines / FIRST
        await until_read(node, 2.2)
        put(file, damaged(file.read_bytes()))
        if remote:
            await node.until_resident()
        else:
            await node.until_said("DigestMismatch")
        assert node.complaints() == []
        await agent.end(signal.SIGTERM)


async def test_a_copy_that_is_damaged_while_others_are_copied(tmp_path: Path) -> None:
    async with scene(tmp_path, Medium.NODE_MEMORY, remote=False) as node:
        agent = await node.start()
        await until_read(node, 2.2)
        file = node.read_by_engines / FIRST
        put(file, damaged(file.read_bytes()))
        await node.until_resident()
        assert node.complaints() == []
        await agent.end(signal.SIGTERM)


def rewritten(following: Path, source: Path) -> None:
    for file in following.iterdir():
        put(source / file.name, file.read_bytes())


@pytest.mark.parametrize("put_there", [by_rename, rewritten])
async def test_other_files_of_a_source_without_a_manifest_while_no_agent_runs(
    tmp_path: Path, put_there: Callable[[Path, Path], None]
) -> None:
    """Nothing but the files themselves says that they are not those of the copy any more."""
    async with node_path(tmp_path, Medium.NODE_MEMORY, by_rename) as node:
        (tmp_path / "source" / MANIFEST_NAME).unlink()
        agent = await node.start()
        await node.until_resident()
        await agent.end(signal.SIGKILL)

        def without_manifest(following: Path, source: Path) -> None:
            (following / MANIFEST_NAME).unlink()
            put_there(following, source)

        node.replace_source(without_manifest)
        agent = await node.start()
        await node.until_resident()
        assert node.is_whole(node.read_by_engines)
        assert node.wrong == []
        await agent.end(signal.SIGTERM)
