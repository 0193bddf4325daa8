"""The store of compiled code, kept by real agents: killed, two at once, with few rights."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from agent_process import Agent, Surroundings
from aiohttp.test_utils import unused_port
from forking import fork
from scene import make_source
from tending import Tending

from support.compile_caches import FILES, broken, key_of, mark, new_store, offer, published
from support.pod_api import FakeApi, fake_api
from support.until import until
from warmpod.agent.cache.store import CompileStore
from warmpod.agent.config import AgentConfig, CacheConfig, Medium, WeightSet
from warmpod.compilecache import layout
from warmpod.protocol import RESIDENT_CONDITION

MOST_BYTES = 3 * 1024**2
OFFERS = 12
KILLS = 25
NODE = {"compileCache": {"store": "Node"}}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes files of other users")


@dataclass
class Scene:
    config: AgentConfig
    api: FakeApi
    account: Path
    root: Path

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        agent = Agent(self.config, Surroundings(self.api.url, self.account))
        try:
            yield agent
        finally:
            await agent.end(signal.SIGTERM)

    async def until_resident(self) -> None:
        def status() -> object:
            return self.api.last(RESIDENT_CONDITION).get("status")

        await until(lambda: status() == "True", status)

    async def until_counted(self, **wanted: float) -> None:
        """The metrics of a look are there when it has ended."""
        for _ in range(400):
            if wanted.items() <= (await self._metrics()).items():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not {wanted}: {await self._metrics()}")

    async def _metrics(self) -> dict[str, float]:
        """Of the store, without what is common to their names and labels."""
        url = f"http://127.0.0.1:{self.config.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            lines = (await answer.text()).splitlines()
        found = (re.fullmatch(r'warmpod_compile_cache_(\w+){model="tiny"} (\S+)', x) for x in lines)
        return {each[1]: float(each[2]) for each in found if each}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    make_source(tmp_path / "source")
    for name in ("state", "account"):
        (tmp_path / name).mkdir()
    (tmp_path / "account" / "token").write_text("t")
    root = new_store(tmp_path / "stores" / "u-1")
    config = AgentConfig(
        model="tiny",
        model_uid="u-1",
        medium=Medium.IMAGE,
        sets=(WeightSet("tiny", tmp_path / "source", "k"),),
        state_dir=tmp_path / "state",
        port=unused_port(),
        look_seconds=0.1,
        compile_cache=CacheConfig(root, MOST_BYTES, root.parent),
    )
    async with fake_api() as api:
        api.warm_models["tiny"] = {"metadata": {"uid": "u-1"}, "spec": NODE}
        yield Scene(config, api, tmp_path / "account", root)


async def taken_in(root: Path) -> None:
    await until(lambda: os.listdir(root / layout.INCOMING) == [], lambda: os.listdir(root))


async def test_a_life_of_a_store(scene: Scene) -> None:
    async with scene.agent():
        await scene.until_resident()
        offer(scene.root)
        await taken_in(scene.root)
        assert published(scene.root) == {key_of(): FILES}
        made = offer(scene.root, driver="1")
        (made / "entry.json").write_text("{")
        mark(scene.root, layout.BAD, "it died")
        await taken_in(scene.root)
        await until(lambda: published(scene.root) == {}, lambda: published(scene.root))
        await scene.until_counted(entries=0, admitted_total=1, refused_total=1, set_aside_total=1)
        offer(scene.root)
        await taken_in(scene.root)
    # The next agent of the WarmModel finds it.
    assert list(published(scene.root)) == [key_of()]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="deleted"),
        pytest.param({"metadata": {"uid": "u-2"}, "spec": NODE}, id="made anew"),
        pytest.param({"metadata": {"uid": "u-1"}, "spec": {}}, id="other store"),
    ],
)
async def test_a_store_that_nobody_needs_goes_with_its_agent(
    scene: Scene, answer: dict[str, Any] | None
) -> None:
    async with scene.agent():
        await scene.until_resident()
        offer(scene.root)
        await taken_in(scene.root)
        offer(scene.root, driver="1")
        del scene.api.warm_models["tiny"]
        if answer is not None:
            scene.api.warm_models["tiny"] = answer
    assert not scene.root.exists()


async def test_a_store_that_cannot_be_kept_leaves_the_weights_alone(scene: Scene) -> None:
    (scene.root / layout.PUBLISHED).rmdir()
    (scene.root / layout.PUBLISHED).write_text("in the way")
    async with scene.agent():
        offer(scene.root)
        await scene.until_resident()
        (scene.root / layout.PUBLISHED).unlink()
        await taken_in(scene.root)


# --- killed ---------------------------------------------------------------------------------


def _offers(root: Path) -> None:
    """More than the store may hold, with marks about some."""
    for number in range(OFFERS):
        content = {"vllm/a": random.Random(number).randbytes(300_000), f"triton/{number}": b"x"}
        offer(root, content, driver=str(number % (OFFERS - 2)))
    for number in (1, 2, 3):
        mark(root, layout.BAD if number == 1 else layout.USED, driver=str(number))


async def test_killed_anywhere_no_pod_sees_half_an_entry(tmp_path: Path) -> None:
    whole = await _duration(new_store(tmp_path / "undisturbed" / "store"))
    chance = random.Random(7)
    for number in range(KILLS):
        root = new_store(tmp_path / str(number) / "store")
        _offers(root)
        agent = await Tending(root, MOST_BYTES).begun()
        await asyncio.sleep(whole * (number + chance.random()) / KILLS)
        await agent.kill()
        assert broken(root) == []
        _converges(root)


async def _duration(root: Path) -> float:
    _offers(root)
    agent = await Tending(root, MOST_BYTES).begun()
    took = await agent.has_looked()
    await agent.kill()
    return took


def _converges(root: Path) -> None:
    store = CompileStore(root, MOST_BYTES)
    store.look()
    assert broken(root) == []
    assert 0 < store.state.bytes <= MOST_BYTES
    assert store.state.entries == len(published(root)) > 0
    assert os.listdir(root / layout.INCOMING) == []
    assert {path.name for path in root.iterdir()} == {"published", "incoming", "set-aside"}


async def test_two_agents_at_once_take_over_each_offer_once(tmp_path: Path) -> None:
    root = new_store(tmp_path / "store")
    agents = [
        await Tending(root, MOST_BYTES, name=f"looked-{number}").begun() for number in range(2)
    ]
    try:
        for number in range(5):
            offer(root, {"a": bytes(100_000)}, driver=str(number))
            offer(root, {"a": bytes(100_000)}, driver=str(number))
        await taken_in(root)
    finally:
        for agent in agents:
            await agent.kill()
    assert set(published(root)) == {key_of(driver=str(number)) for number in range(5)}
    assert broken(root) == []


# --- with the rights of an agent ------------------------------------------------------------

CAP_FOWNER = 3
_CAPABILITY_VERSION_3 = 0x20080522


def _keep_only(capability: int) -> None:
    """As the runtime starts an agent: root, with next to no capabilities (capset(2))."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    bits = 1 << capability
    data = (ctypes.c_uint32 * 6)(bits, bits, 0, 0, 0, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _look_with_few_rights(root: Path) -> None:
    _keep_only(CAP_FOWNER)
    CompileStore(root, MOST_BYTES).look()


def _leave_with_few_rights(root: Path) -> None:
    _keep_only(CAP_FOWNER)
    CompileStore(root, MOST_BYTES).leave()


def _given_to(user: int, made: Path, mode: int | None = None) -> None:
    for path in (made, *made.rglob("*")):
        os.chown(path, user, user)
    if mode is not None:
        for path in (made, *made.rglob("*")):
            if path.is_dir():
                path.chmod(mode)


async def _ended(target: Callable[[Path], None], root: Path) -> None:
    process = fork(target, root)
    await asyncio.to_thread(process.join, 30)
    assert process.exitcode == 0


@as_root
async def test_offers_of_any_user_are_taken_over_and_removed(tmp_path: Path) -> None:
    root = new_store(tmp_path / "store")
    await _ended(_look_with_few_rights, root)
    _given_to(1000, offer(root))
    _given_to(1000, offer(root, driver="locked"), 0o500)
    _given_to(2000, offer(root, driver="hidden"), 0)
    await _ended(_look_with_few_rights, root)
    assert os.listdir(root / layout.INCOMING) == []
    assert published(root)[key_of()] == FILES
    owners = {path.stat().st_uid for path in (root / layout.PUBLISHED).rglob("*")}
    assert owners == {0}
    _given_to(2000, offer(root, driver="late"), 0)
    await _ended(_leave_with_few_rights, root)
    assert list(root.iterdir()) == []


@as_root
async def test_a_pod_of_another_user_can_add_but_not_look_or_take(tmp_path: Path) -> None:
    root = new_store(tmp_path / "store")
    CompileStore(root, MOST_BYTES).look()
    theirs = offer(root)
    await _ended(_as_another_user, theirs)
    assert sorted(os.listdir(root / layout.INCOMING)) == ["mine", theirs.name]


def _as_another_user(theirs: Path) -> None:
    os.chdir(theirs.parent)  # the way there is not everybody's
    os.setgroups([])
    os.setgid(1000)
    os.setuid(1000)
    Path("mine").mkdir()
    forbidden: tuple[Callable[[], object], ...] = (
        lambda: os.listdir(),
        lambda: Path(theirs.name).rename("taken"),
        lambda: Path(theirs.name, "added").mkdir(),
        lambda: Path("..", layout.PUBLISHED, "forged").mkdir(),
    )
    for attempt in forbidden:
        with pytest.raises(PermissionError):
            attempt()
