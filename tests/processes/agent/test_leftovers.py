"""An agent that is killed together with its WarmModel leaves a copy behind, which another agent of
the node takes away, whatever that one is busy with."""

from __future__ import annotations

import fcntl
import signal
from dataclasses import replace
from pathlib import Path

from agent_process import Agent, Surroundings
from aiohttp.test_utils import unused_port
from scene import Scene, scene

from support.until import until
from unit.agent.users import used
from warmpod.agent.config import AgentConfig, Medium


async def test_it_goes_while_the_other_agent_waits_for_something_else(tmp_path: Path) -> None:
    async with scene(tmp_path, Medium.NODE_MEMORY, remote=False) as node:
        root = node.config.node_root
        killed = await node.start()
        await node.until_resident()
        (root / ".fill" / "k2").touch()
        with (root / ".fill" / "k2").open("r+") as writer:
            fcntl.flock(writer, fcntl.LOCK_EX)
            other = start(node, tmp_path, config_of_another(node.config))
            ref = root / ".refs" / "k2" / "u-2"
            await until(ref.exists, lambda: "the other agent does not come")
            with used(root / "k"):
                await killed.end(signal.SIGKILL)
                await until_touched(ref, times=10)
                assert node.is_whole(root / "k")
            await until(lambda: not (root / "k").exists(), lambda: "the copy stays")
            await until(lambda: not (root / ".refs" / "k").exists(), lambda: "its ref stays")
        await other.end(signal.SIGTERM)


def config_of_another(config: AgentConfig) -> AgentConfig:
    (weights,) = config.sets
    return replace(config, model_uid="u-2", sets=(replace(weights, key="k2"),), port=unused_port())


def start(node: Scene, folder: Path, config: AgentConfig) -> Agent:
    assert node.api is not None
    return Agent(config, Surroundings(node.api.url, folder / "account"))


async def until_touched(ref: Path, times: int) -> None:
    """The other agent says that it lives, and has looked for leftovers each time."""
    seen: set[int] = set()

    def often() -> bool:
        seen.add(ref.stat().st_mtime_ns)
        return len(seen) > times

    await until(often, lambda: f"touched {len(seen)} times")
