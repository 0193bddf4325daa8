"""An agent that is killed while it works leaves nothing that a later one takes for right."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support import node_faults
from support.api import Api, JsonObject
from support.background import Background
from support.copies import (
    NODE_DISK,
    NODE_MEMORY,
    Copies,
    digests_in,
    digests_of,
    is_whole,
    size_of,
    write_files,
)
from support.file_server import FileServer
from support.images import REGISTRY, push_image
from support.models import ModelView, condition_of, held_model
from support.node import Node, kill
from support.serving import serving, url_of
from support.waiting import wait_until
from support.weights import Files, big_weights

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]

KILLS = 10
NOTES_BYTES = 65536  # an agent may note what it has downloaded
SEED = 20250


@pytest.fixture(scope="module", autouse=True)
def no_back_off(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A kubelet that restarts containers after a second, however often they end."""
    folder = tmp_path_factory.mktemp("kubelet")
    with node_faults.kubelet_settings(folder, crashLoopBackOff={"maxContainerRestartPeriod": "1s"}):
        yield


@dataclass
class NeverWrong(Background):
    """Looks all the time whether what is said to be resident is whole, and there only once."""

    view: ModelView
    copies: Copies
    files: Files
    violations: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)

    def step(self) -> None:
        said = {condition_of(pod, "warmpod.io/Resident").get("status") for pod in self._agents()}
        mine = self.copies.names() - self.others
        if "True" in said and not any(is_whole(self.copies.root / key, self.files) for key in mine):
            self.violations.append("resident, but not whole")
        if len(mine) > 1:
            self.violations.append(f"more than one copy: {sorted(mine)}")

    def _agents(self) -> list[JsonObject]:
        return self.view.prefetch_pods()


def test_killed_while_it_fills_the_memory_of_the_node(
    node: Node, create: Create, namespace: str, tmp_path: Path
) -> None:
    weights = big_weights(192, note=namespace)
    image = f"{REGISTRY}/test/weights-kills:1"
    push_image(image, weights, tmp_path / "image")
    model = held_model("killed", namespace, image, "NodeMemory", size="256Mi")
    kill_again_and_again(node, create, model, weights, NODE_MEMORY)


def test_killed_while_it_stages(
    api: Api, node: Node, create: Create, namespace: str, tmp_path: Path
) -> None:
    weights = big_weights(192, note=namespace)
    write_files(tmp_path, weights)
    with serving(api, FileServer, tmp_path) as server:
        source = {"http": {"url": f"{url_of(server)}/"}}
        model = held_model("killed", namespace, "", size="256Mi", model=source)
        kill_again_and_again(node, create, model, weights, NODE_DISK)


def kill_again_and_again(
    node: Node, create: Create, model: JsonObject, weights: Files, copies: Copies
) -> None:
    """Kills the agent at random points of its work, and in the end lets it finish."""
    total = size_of(weights)
    before = copies.names()
    points = sorted(random.Random(SEED).random() for _ in range(KILLS))
    view = create(model)
    killed: set[int] = set()
    with NeverWrong(view, copies, weights, others=before, period_s=0.05) as watched:
        for point in points:
            pid = wait_until(
                "an agent runs", lambda: agent(node, view, besides=killed), timeout_s=90
            )
            wait_until(
                f"{point:.0%} are there",
                lambda point=point: copies.stored_bytes(before) >= point * total,
                timeout_s=60,
                poll_s=0.002,
            )
            kill(pid)
            killed.add(pid)
        view.wait_resident()
        left = copies.stored_bytes(before) - total
        assert left < NOTES_BYTES, f"{left} bytes are left of killed agents"
    assert watched.violations == []
    (key,) = copies.names() - before
    assert digests_in(copies.root / key) == digests_of(weights)


def agent(node: Node, view: ModelView, besides: set[int]) -> int | None:
    for pod in view.prefetch_pods():
        pid = node.running_pid(pod["metadata"]["uid"], "agent")
        if pid is not None and pid not in besides:
            return pid
    return None
