"""A node with weights of known content, and what may and may not be seen there."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from agent_process import Agent, Surroundings
from aiohttp.test_utils import unused_port

from support.file_server import FileServer, running
from support.pod_api import FakeApi, fake_api
from support.until import until
from warmpod.agent.config import AgentConfig, Medium, WeightSet
from warmpod.protocol import RECEIPT_NAME, RESIDENT_CONDITION
from warmpod.weights import manifest
from warmpod.weights.manifest import MANIFEST_NAME

SHARDS = 3
SHARD_BYTES = 1_500_000
# What agents keep beside the model's files: manifest, receipt, notes of the stager.
NOTES_BYTES = 128 * 1024


class Scene:
    """One node. `wrong` collects what the API server was told and must not have been."""

    def __init__(self, folder: Path, config: AgentConfig, content: dict[str, bytes]) -> None:
        self.config = config
        self.wrong: list[str] = []
        self.api: FakeApi | None = None
        self._folder = folder
        self._content = content

    @property
    def read_by_engines(self) -> Path:
        (weights,) = self.config.sets
        if self.config.medium is Medium.NODE_MEMORY:
            return self.config.node_root / weights.key
        return weights.source

    def is_whole(self, directory: Path) -> bool:
        """Whether the directory holds the model and nothing else, by its content."""
        found = {
            path.relative_to(directory).as_posix(): path.read_bytes()
            for path in directory.rglob("*")
            if path.is_file() and not path.relative_to(directory).as_posix().startswith(".")
        }
        found.pop(MANIFEST_NAME, None)
        return found == self._content

    def replace_source(self, put: Callable[[Path, Path], None]) -> None:
        """By files of the same names and sizes. `put` is given these, and where to."""
        (weights,) = self.config.sets
        following = weights.source.with_name("following")
        self._content = make_source(following, seed=SHARDS)
        put(following, weights.source)

    def complaints(self) -> list[str]:
        """What must never be so, at whatever moment the agent was killed."""
        found = list(self.wrong)
        for root in (self.config.stage_root, self.config.node_root):
            copies = [path for path in root.iterdir() if not path.name.startswith(".")]
            if len(copies) > 1:
                found.append(f"{root} holds {len(copies)} copies")
            for copy in copies:
                if (copy / RECEIPT_NAME).exists() and not self.is_whole(copy):
                    found.append(f"{copy} has a receipt and is not whole")
                if (used := _used_bytes(copy)) > self._size() + NOTES_BYTES:
                    found.append(f"{copy} takes {used} bytes for {self._size()}")
        return found

    async def listen(self, condition: dict[str, object]) -> None:
        """Called when the API server is told something, before it answers."""
        resident = condition["type"] == RESIDENT_CONDITION and condition["status"] == "True"
        if resident and not self.is_whole(self.read_by_engines):
            self.wrong.append(f"resident with wrong files: {condition['message']}")

    async def start(self) -> Agent:
        """Start an agent and wait for its first word."""
        assert self.api is not None
        self.api.patches.clear()
        agent = Agent(self.config, Surroundings(self.api.url, self._folder / "account"))
        await until(lambda: self._condition() != {}, lambda: "no word from the agent")
        return agent

    async def until_resident(self) -> None:
        """Wait until the agent that was started last has reported so."""
        await until(lambda: self._condition().get("status") == "True", self._condition)

    async def until_said(self, reason: str) -> None:
        await until(lambda: self._condition().get("reason") == reason, self._condition)

    def beside(self, config: AgentConfig, api: FakeApi) -> Scene:
        """The same node, with the agent of another WarmModel."""
        other = Scene(self._folder, config, self._content)
        other.api = api
        return other

    def _condition(self) -> dict[str, object]:
        assert self.api is not None
        return self.api.last(RESIDENT_CONDITION)

    def _size(self) -> int:
        return sum(map(len, self._content.values()))


@asynccontextmanager
async def scene(folder: Path, medium: Medium, *, remote: bool) -> AsyncIterator[Scene]:
    content = make_source(folder / "source")
    for name in ("staged", "memory", "state", "account"):
        (folder / name).mkdir()
    (folder / "account" / "token").write_text("t")
    with running(FileServer(folder / "source")) as server:
        node = Scene(folder, _config(folder, medium, f"{server.url}/" if remote else None), content)
        async with fake_api() as node.api:
            node.api.warm_models["tiny"] = {"metadata": {"uid": "u-1"}}
            node.api.on_patch = node.listen
            yield node


def _config(folder: Path, medium: Medium, url: str | None) -> AgentConfig:
    """`url`: where the files are downloaded from; None for those in the folder."""
    if url is None:
        weights = WeightSet("tiny", folder / "source", "k")
    else:
        weights = WeightSet("tiny", folder / "staged" / "k", "k", remote={"http": {"url": url}})
    return AgentConfig(
        model="tiny",
        model_uid="u-1",
        medium=medium,
        sets=(weights,),
        node_root=folder / "memory",
        stage_root=folder / "staged",
        state_dir=folder / "state",
        port=unused_port(),
        look_seconds=0.2,
    )


def make_source(folder: Path, seed: int = 0) -> dict[str, bytes]:
    """Files that differ from each other, and the manifest beside them."""
    folder.mkdir(parents=True)
    content = {
        f"model-{number}.safetensors": random.Random(seed + number).randbytes(SHARD_BYTES)
        for number in range(SHARDS)
    } | {"config.json": b"{}"}
    for name, data in content.items():
        (folder / name).write_bytes(data)
    manifest.write(folder, manifest.from_directory(folder))
    return content


def _used_bytes(directory: Path) -> int:
    facts = [os.lstat(path) for path in directory.rglob("*") if path.is_file()]
    return sum(min(fact.st_size, fact.st_blocks * 512) for fact in facts)
