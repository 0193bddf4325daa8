"""The compile cache of a node, through the life of one model: what a pod has compiled, the next
one finds; what has changed is said; what is damaged costs one start."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.api import Api, JsonObject
from support.compile_caches import broken
from support.events import events_of
from support.models import ModelView, knobs, warm_model, with_engine
from support.startups import Startups
from support.waiting import wait_until
from warmpod.compilecache import entry as entries
from warmpod.compilecache import layout
from warmpod.compilecache.entry import Entry
from warmpod.protocol import CACHE_ROOT

Create = Callable[[JsonObject], ModelView]

SIM = {"first_seconds": 0.05, "load_seconds": 1, "driver": "550.1"}
ARGS = ["--max-model-len=1024"]
START_S = 120


class Life:
    """One WarmModel with a store on the node, and what is told of its start-ups."""

    def __init__(self, create: Create, namespace: str, replicas: int) -> None:
        self._create = create
        model = warm_model("cached", namespace, replicas=replicas, compileCache={"store": "Node"})
        self._model = with_engine(model, args=ARGS, env=knobs(**SIM))
        self.view = create(self._model)
        self.startups = Startups(self.view)
        uid = self.view.get()["metadata"]["uid"]
        self.root = Path(CACHE_ROOT) / namespace / uid

    def start_again(self) -> JsonObject:
        """Another pod takes the place of the one that is there."""
        wait_until(
            "one pod is left",
            lambda: len(self.view.engine_pods()) == 1,
            timeout_s=START_S,
            describe=self.view.conditions,
        )
        self.view.api.delete("Pod", self.view.engine_pod()["metadata"]["name"], self.view.namespace)
        (startup,) = self.startups.next()
        return startup

    def change(self, **engine: Any) -> JsonObject:
        """One pod, with other settings than the first ones."""
        self._model["spec"]["replicas"] = 1
        self._create(with_engine(self._model, **engine))
        (startup,) = self.startups.next()
        self.view.wait_ready(timeout_s=START_S)
        return startup

    def shrink(self) -> None:
        self._model["spec"]["replicas"] = 1
        self._create(self._model)
        self.view.wait_ready()

    def entries(self) -> list[Entry]:
        return [
            entries.read(path)
            for path in sorted((self.root / layout.PUBLISHED).iterdir())
            if not path.name.startswith(".")
        ]

    def wait_entries(self, number: int) -> list[Entry]:
        """Until so many are published and nothing is offered."""

        def taken_in() -> bool:
            waiting = os.listdir(self.root / layout.INCOMING)
            return not waiting and len(self.entries()) == number

        wait_until(
            f"the store has {number} entries",
            taken_in,
            timeout_s=60,
            describe=lambda: list(self.root.rglob("*")),
        )
        assert broken(self.root) == []
        return self.entries()

    def wait_event(self, reason: str, text: str) -> None:
        def told() -> bool:
            return any(
                event["reason"] == reason and text in event["message"]
                for event in events_of(self.view)
            )

        wait_until(
            f"an event {reason}: {text}",
            told,
            timeout_s=60,
            describe=lambda: [(e["reason"], e["message"]) for e in events_of(self.view)],
        )


def is_miss(startup: JsonObject, why: str, cache: str = "miss") -> bool:
    found = (startup["compile"], startup.get("cache"), startup.get("compileWhy"))
    assert found[:2] == ("miss", cache), found
    assert why in (found[2] or ""), found
    return True


def is_hit(startup: JsonObject) -> bool:
    """By the engine's own line: nothing else makes it one."""
    assert (startup["compile"], startup.get("cache")) == ("hit", "filled"), startup
    assert "compileWhy" not in startup
    return True


def test_the_cache_of_a_node(api: Api, create: Create, namespace: str) -> None:
    # Two pods at once on an empty store: both compile, one of them is kept, and whole.
    life = Life(create, namespace, replicas=2)
    for startup in life.startups.next(pods=2):
        assert is_miss(startup, "nothing is stored yet")
    life.wait_event("CompileCacheMiss", "nothing is stored yet")
    (first,) = life.wait_entries(1)
    assert first.factors.driver == "550.1"
    assert first.factors.gpu == ("NVIDIA H200",)

    # The next pod has a hit.
    life.shrink()
    assert is_hit(life.start_again())

    # Other settings miss, with the reason, and have an entry of their own afterwards.
    assert is_miss(life.change(args=["--max-model-len=2048"]), "argument max-model-len changed")
    life.wait_event("CompileCacheMiss", "argument max-model-len changed")
    life.wait_entries(2)
    startup = life.change(env=knobs(**SIM | {"driver": "580.2"}))
    assert is_miss(startup, "driver changed from 550.1 to 580.2")
    life.wait_entries(3)

    # Back to the first settings: their entry is still there. Then it is damaged.
    assert is_hit(life.change())
    os.truncate(first.directory / entries.FILES / largest(first), 0)
    startup = life.start_again()
    assert is_miss(startup, "damaged", cache="damaged")
    life.wait_event("CompileCacheSetAside", "damaged")
    life.wait_entries(3)
    assert (life.root / layout.SET_ASIDE / first.key).is_dir()
    assert is_hit(life.start_again())

    # Nothing of it outlives the WarmModel.
    api.delete("WarmModel", life.view.name, namespace)
    wait_until("the store is gone", lambda: not life.root.exists(), timeout_s=120)


def largest(entry: Entry) -> str:
    return max(entry.files, key=lambda file: file.size).path
