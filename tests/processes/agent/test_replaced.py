"""Another directory at the path of the source: the agent never vouches for what new engines do not
read, and its successor reads all of what they do."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp.test_utils import unused_port
from scene import Scene, scene

from support.pod_api import fake_api
from warmpod.agent.config import Medium
from warmpod.agent.sources.lookup import Lookup
from warmpod.agent.sources.origin import Kind, Origin
from warmpod.protocol import RESIDENT_CONDITION
from warmpod.weights.manifest import MANIFEST_NAME

Put = Callable[[Path, Path], None]


def by_rename(following: Path, source: Path) -> None:
    source.rename(source.with_name("old"))
    following.rename(source)


def by_link(following: Path, source: Path) -> None:
    """As `ln -sfn` does, in one step."""
    link = source.with_name("link")
    link.symlink_to(following.name)
    link.rename(source)


def with_the_old_manifest(following: Path, source: Path) -> None:
    (following / MANIFEST_NAME).write_bytes((source / MANIFEST_NAME).read_bytes())
    by_rename(following, source)


@asynccontextmanager
async def node_path(folder: Path, medium: Medium, put: Put) -> AsyncIterator[Scene]:
    async with scene(folder, medium, remote=False) as node:
        (weights,) = node.config.sets
        if put is by_link:
            weights.source.rename(folder / "first")
            weights.source.symlink_to("first")
        origin = Origin(Kind.NODE_PATH, "", str(weights.source))
        lookup = Lookup(folder, weights.source.name, str(folder))
        weights = replace(weights, origin=origin, lookup=lookup)
        node.config = replace(node.config, sets=(weights,))
        yield node


def reason(node: Scene) -> object:
    assert node.api is not None
    return node.api.last(RESIDENT_CONDITION).get("reason")


@pytest.mark.parametrize("put", [by_rename, by_link])
@pytest.mark.parametrize("medium", list(Medium))
async def test_the_next_agent_verifies_what_is_there_now(
    tmp_path: Path, medium: Medium, put: Put
) -> None:
    async with node_path(tmp_path, medium, put) as node:
        agent = await node.start()
        await node.until_resident()
        node.replace_source(put)
        assert await agent.ended() == 1
        assert reason(node) == "SourceReplaced"
        following = await node.start()
        await node.until_resident()
        assert node.is_whole(node.read_by_engines)
        assert node.complaints() == []
        await following.end(signal.SIGTERM)


async def test_bad_files_in_the_new_directory_are_found(tmp_path: Path) -> None:
    async with node_path(tmp_path, Medium.IMAGE, by_rename) as node:
        agent = await node.start()
        await node.until_resident()
        node.replace_source(with_the_old_manifest)
        assert await agent.ended() == 1
        following = await node.start()
        await node.until_said("DigestMismatch")
        await following.end(signal.SIGTERM)


def without_a_manifest(following: Path, source: Path) -> None:
    (following / MANIFEST_NAME).unlink()
    by_rename(following, source)


@pytest.mark.parametrize("put", [by_rename, without_a_manifest])
async def test_two_that_share_a_copy_do_not_undo_each_others_work(tmp_path: Path, put: Put) -> None:
    """The second one starts on the new directory while the first one has the old."""
    async with node_path(tmp_path, Medium.NODE_MEMORY, by_rename) as node:
        if put is without_a_manifest:
            (tmp_path / "source" / MANIFEST_NAME).unlink()
        first = await node.start()
        await node.until_resident()
        node.replace_source(put)
        async with fake_api() as api:
            api.warm_models["tiny"] = {"metadata": {"uid": "u-2"}}
            config = replace(node.config, model_uid="u-2", port=unused_port())
            other = node.beside(config, api)
            second = await other.start()
            await other.until_resident()
            assert await first.ended() == 1
            await other.until_resident()
            assert node.is_whole(node.read_by_engines)
            assert node.complaints() == []
            await second.end(signal.SIGTERM)
