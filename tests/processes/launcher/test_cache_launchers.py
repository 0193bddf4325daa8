"""What one pod has compiled is used by the next, and costs one start at most when it is bad.

Real launchers with the simulator, whose own line says whether it found anything."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launcher_process import fake
from pods import FACTS, Node, Pod

from support.waiting import wait_for
from warmpod.compilecache import entry as entries
from warmpod.compilecache.layout import BAD, OFFER, USED, read_mark

DRIVER = "550.54.15"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the entry of one pod."""
    node = Node(tmp_path_factory.mktemp("node"))
    pod = node.pod()
    try:
        assert pod.launcher.wait_event("cache")["why"] == "nothing is stored yet"
        pod.wait_warm()
        offered = pod.launcher.wait_event("cache-offered")
        node.keep()
        assert offered["key"] == node.entry().key
        assert offered["files"] == len(node.entry().files) > 0
        assert "aot_hit" not in pod.stages()
        pod.stop()
    finally:
        pod.kill()
    return node.store.root


@pytest.fixture
def empty_node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    for pod in node.pods:
        pod.kill()


@pytest.fixture
def node(empty_node: Node, published: Path) -> Node:
    """One with that entry."""
    shutil.rmtree(empty_node.store.published)
    shutil.copytree(published / "published", empty_node.store.published)
    return empty_node


def hits(node: Node) -> Pod:
    """A pod that is filled from the store, whose engine says that it could use it."""
    pod = node.pod()
    pod.wait_warm()
    assert pod.outcomes() == [("filled", "")]
    assert "aot_hit" in pod.stages()
    return pod


def compiles_and_offers(node: Node, pod: Pod) -> None:
    """The pod becomes warm all the same, and what it compiled takes the place of the bad entry."""
    pod.wait_warm()
    pod.launcher.wait_event("cache-offered")
    node.keep()


def test_the_next_pod_hits(node: Node) -> None:
    pod = hits(node)
    assert [mark.key for mark in node.arrivals(USED)] == [node.entry().key]
    pod.stop()
    assert pod.launcher.events("cache-offered") == []
    assert node.arrivals(OFFER) == []


@pytest.mark.parametrize(
    ("arguments", "image", "environment", "why"),
    [
        (["--max-model-len=512"], "image", {}, "argument max-model-len added"),
        ([], "other", {}, "engine image changed"),
        ([], "image", {"SIM_DRIVER": "580.2"}, f"driver changed from {DRIVER} to 580.2"),
        ([], "image", {"SIM_GPU": "NVIDIA B200"}, "GPU changed from NVIDIA H200 to NVIDIA B200"),
        ([], "image", {"VLLM_PLUGINS": "x"}, "variable VLLM_PLUGINS added"),
    ],
)
def test_what_decides_has_changed(
    node: Node, arguments: list[str], image: str, environment: dict[str, str], why: str
) -> None:
    facts = FACTS | {"image": f"sha256:{image}"}
    pod = node.pod(*arguments, facts=facts, environment=environment)
    told = pod.launcher.wait_event("cache")
    assert (told["outcome"], told["why"]) == ("miss", why)
    assert told["key"] != node.entry().key
    pod.launcher.wait_ready()
    assert "aot_hit" not in pod.stages()


def truncated(directory: Path) -> None:
    (model,) = directory.rglob("model")
    os.truncate(model, model.stat().st_size // 2)


def without_bytes(directory: Path) -> None:
    (model,) = directory.rglob("model")
    os.truncate(model, 0)


def of_another_format(directory: Path) -> None:
    path = directory / "entry.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"format": 2}))


@pytest.mark.parametrize("damage", [truncated, without_bytes, of_another_format])
def test_a_damaged_entry_costs_one_slow_start(node: Node, damage: Callable[[Path], None]) -> None:
    damage(node.entry().directory)
    pod = node.pod()
    told = pod.launcher.wait_event("cache")
    assert told["outcome"] == "damaged"
    (mark,) = node.arrivals(BAD)
    assert read_mark(node.store.incoming, mark) == told["why"]
    compiles_and_offers(node, pod)
    assert "aot_hit" not in pod.stages()
    hits(node)


def test_what_the_engine_cannot_load_costs_one_slow_start(node: Node, tmp_path: Path) -> None:
    """It is whole, but was written by another version."""
    old = node.entry()
    work = tmp_path / "work"
    work.mkdir()
    entries.unpack(old, work)
    (model,) = work.rglob("model")
    model.write_text("something else")
    shutil.rmtree(old.directory)
    entries.write(work, old.directory, old.factors, 0)
    pod = node.pod()
    compiles_and_offers(node, pod)
    filled, missed = pod.outcomes()
    assert filled == ("filled", "")
    assert missed == ("set-aside", "the engine cannot load it: Compile cache file corrupted.")
    assert len(pod.launcher.events("boot-started")) == 1
    hits(node)


def test_a_crash_after_a_hit_costs_one_slow_start(node: Node) -> None:
    pod = node.pod(environment={"SIM_FAULT": "crash-on-hit"})
    boot = pod.launcher.wait_event("boot-ended")["boot"]
    compiles_and_offers(node, pod)
    assert pod.outcomes()[0] == ("filled", "")
    outcome, why = pod.outcomes()[1]
    assert outcome == "set-aside"
    assert why.startswith(f"boot {boot} ended before it was warm: ")
    assert [event["boot"] for event in pod.launcher.events("boot-ended")] == [boot]
    assert pod.stages().count("aot_hit") == 1
    hits(node)


def test_a_container_that_dies_with_its_first_boot_does_not_try_again(node: Node) -> None:
    pod = node.pod(environment={"SIM_KV_SECONDS": "1000"})
    wait_for(lambda: "profile" in pod.stages())
    pod.kill()
    pod.start()
    pod.launcher.wait_event("boot-started", 2)
    assert [outcome for outcome, _ in pod.outcomes()] == ["filled", "set-aside"]
    assert len(node.arrivals(BAD)) == 1
    wait_for(lambda: pod.stages().count("profile") == 2)
    assert pod.stages().count("aot_hit") == 1


def test_a_container_that_is_stopped_keeps_its_caches(node: Node) -> None:
    pod = node.pod(environment={"SIM_KV_SECONDS": "1000"})
    wait_for(lambda: "aot_hit" in pod.stages())
    pod.stop()
    pod.start()
    wait_for(lambda: pod.stages().count("aot_hit") == 2)
    assert pod.outcomes() == [("filled", ""), ("kept", "")]
    assert node.arrivals(BAD) == []


def test_two_pods_start_at_once_on_an_empty_store(empty_node: Node) -> None:
    pods = [empty_node.pod(), empty_node.pod()]
    for pod in pods:
        pod.wait_warm()
    for pod in pods:
        pod.launcher.wait_event("cache-offered")
        assert pod.outcomes() == [("miss", "nothing is stored yet")]
    first, second = empty_node.arrivals(OFFER)
    assert first.key == second.key
    empty_node.keep()
    assert empty_node.arrivals(OFFER) == []
    assert os.listdir(empty_node.store.incoming) == []
    hits(empty_node)


def test_an_entry_that_another_pod_found_bad_is_not_tried(node: Node) -> None:
    (node.store.incoming / f"bad-{node.entry().key}").touch()
    pod = node.pod()
    told = pod.launcher.wait_event("cache")
    assert (told["outcome"], told["why"]) == ("miss", "another pod could not use what is stored")


def test_a_store_in_an_image_takes_no_offers(node: Node) -> None:
    shutil.rmtree(node.store.incoming)
    hits(node).stop()
    other = node.pod("--max-model-len=512")
    other.wait_warm()
    wait_for(lambda: '"unpublished": true' in state_of(other) and '"trying": ""' in state_of(other))
    other.stop()
    assert other.launcher.events("cache-offered") == []
    assert "Traceback" not in (other.directory / "stderr").read_text()


def state_of(pod: Pod) -> str:
    return (pod.directory / "run/compile-cache.json").read_text()


def test_each_tool_is_told_where_its_cache_is(tmp_path: Path) -> None:
    pod = Pod(tmp_path, fake("environment"), [], {"TRITON_CACHE_DIR": "/users/own"})
    pod.start()
    pod.launcher.wait_event("boot-ended")
    pod.kill()
    environment = json.loads((tmp_path / "stdout").read_text().splitlines()[0])
    cache = str(tmp_path / "cache")
    assert environment["VLLM_CACHE_ROOT"] == f"{cache}/vllm"
    assert environment["FLASHINFER_WORKSPACE_BASE"] == f"{cache}/flashinfer"
    assert environment["CUDA_CACHE_PATH"] == f"{cache}/cuda"
    assert environment["TRITON_CACHE_DIR"] == "/users/own"
    assert "DG_JIT_CACHE_DIR" not in environment
    assert pod.outcomes() == [("miss", "each pod compiles for itself")]
