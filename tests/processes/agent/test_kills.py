"""An agent that is killed, at whatever moment: its successor is never misled."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path

import pytest
from scene import Scene, scene

from warmpod.agent.config import Medium

POINTS = 100
COURSES = [
    (Medium.IMAGE, True),  # staging, then reading for residency
    (Medium.NODE_MEMORY, False),  # filling
    (Medium.NODE_MEMORY, True),  # staging, then filling
    (Medium.IMAGE, False),  # verifying
]
_durations: dict[int, float] = {}


async def duration(course: int, folder: Path) -> float:
    """Seconds from the first word of an agent that nobody kills to its success; measured once."""
    if course not in _durations:
        medium, remote = COURSES[course]
        async with scene(folder, medium, remote=remote) as node:
            agent = await node.start()
            began = time.monotonic()
            await node.until_resident()
            _durations[course] = time.monotonic() - began
            await agent.end(signal.SIGKILL)
    return _durations[course]


@pytest.mark.parametrize("point", range(POINTS))
async def test_killed_anywhere_it_never_lies_and_always_converges(
    tmp_path: Path, point: int
) -> None:
    course, step = point % len(COURSES), point // len(COURSES)
    whole = await duration(course, tmp_path / "undisturbed")
    # A point within each part of the course, and some after its end.
    moment = whole * 1.1 * (step + random.Random(point).random()) / (POINTS // len(COURSES))
    medium, remote = COURSES[course]
    async with scene(tmp_path / "node", medium, remote=remote) as node:
        agent = await node.start()
        await asyncio.sleep(moment)
        await agent.end(signal.SIGKILL)
        assert node.complaints() == []
        await converges(node)


async def converges(node: Scene) -> None:
    agent = await node.start()
    try:
        await node.until_resident()
        assert node.complaints() == []
        assert node.is_whole(node.read_by_engines)
    finally:
        await agent.end(signal.SIGTERM)


async def test_killed_again_and_again_it_still_gets_there(tmp_path: Path) -> None:
    """Each life is too short for all of it, and long enough for some."""
    whole = await duration(2, tmp_path / "undisturbed")
    async with scene(tmp_path / "node", Medium.NODE_MEMORY, remote=True) as node:
        for _ in range(10):
            agent = await node.start()
            await asyncio.sleep(whole / 8)
            await agent.end(signal.SIGKILL)
            assert node.complaints() == []
        await converges(node)


async def test_in_a_pod_that_is_deleted_it_ends_without_a_signal(tmp_path: Path) -> None:
    """SIGTERM comes once, and may come before anybody handles it."""
    async with scene(tmp_path, Medium.NODE_MEMORY, remote=False) as node:
        assert node.api is not None
        node.api.metadata = {"deletionTimestamp": "2030-01-01T12:00:00Z"}
        agent = await node.start()
        assert await agent.ended() == 0
        assert node.complaints() == []
