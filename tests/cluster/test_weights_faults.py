"""Whatever takes weights away from a node is noticed and told, and they are brought back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.residency import kept, looked_at_again, lost_and_back
from support import node_faults, page_cache
from support.api import Api, JsonObject
from support.copies import NODE_MEMORY, digests_in, digests_of
from support.images import REGISTRY, push_image
from support.models import ModelView, container_status, held_model
from support.namespaces import temporary_namespace
from support.node import Node
from support.weights import LAST, SHARDS, Files, big_weights, good_weights

pytestmark = pytest.mark.alone

REPOSITORY = "test/weights-faults"
UNUSED = "test/weights-unused"
FIRST = min(SHARDS)
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module")
def weights() -> Files:
    return big_weights(64, note="faults")


@pytest.fixture(scope="module")
def image(node: Node, weights: Files, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Nothing that tests before these have left is on the node: a kubelet reports its fifty
    largest images only."""
    node.remove_images(f"{REGISTRY}/test/")
    reference = f"{REGISTRY}/{REPOSITORY}:1"
    push_image(reference, weights, tmp_path_factory.mktemp("image") / "layout")
    return reference


@pytest.fixture(scope="module")
def namespaced(api: Api) -> Iterator[str]:
    with temporary_namespace(api, "test-faults-") as namespace:
        yield namespace


@pytest.fixture(scope="module")
def held(api: Api, namespaced: str, image: str) -> ModelView:
    """Medium Image, with an engine."""
    api.apply(held_model("held", namespaced, image, replicas=1))
    view = ModelView(api, "held", namespaced)
    view.wait_ready()
    return view


@pytest.fixture(scope="module")
def copied(api: Api, namespaced: str, image: str) -> ModelView:
    """Medium NodeMemory, no engine."""
    api.apply(held_model("copied", namespaced, image, "NodeMemory"))
    view = ModelView(api, "copied", namespaced)
    view.wait_resident()
    return view


@pytest.fixture
def bait(tmp_path: Path) -> Path:
    """A file in the page cache that nobody holds there."""
    file = tmp_path / "bait"
    file.write_bytes(bytes(1024**2))
    return file


def test_locked_pages_stay_whatever_is_dropped(node: Node, held: ModelView, bait: Path) -> None:
    agent = held.prefetch_pod()
    files = shards(node.files_in(agent, "agent", "/images/model"))
    with kept(held):
        page_cache.drop_caches()
        with pytest.raises(OSError, match="process_madvise"):
            page_cache.page_out(node.container_pid(agent["metadata"]["uid"], "agent"), files)
        assert page_cache.resident_bytes([bait]) == 0, "nothing was dropped"
        assert page_cache.resident_bytes(files) == page_cache.needed_bytes(files)


@pytest.mark.namespace_labels(RESTRICTED)
def test_dropped_pages_are_read_again_where_none_can_be_locked(
    api: Api, node: Node, namespace: str, tmp_path: Path
) -> None:
    """An image of its own: where another agent has locked the same pages, none can be dropped."""
    image = f"{REGISTRY}/test/weights-dropped:1"
    push_image(image, big_weights(64, note="dropped"), tmp_path / "image")
    api.apply(held_model("dropped", namespace, image))
    view = ModelView(api, "dropped", namespace)
    view.wait_resident()
    agent = view.prefetch_pod()
    files = shards(node.files_in(agent, "agent", "/images/model"))
    with lost_and_back(view, "NotResident"):
        page_cache.page_out(node.container_pid(agent["metadata"]["uid"], "agent"), files)
    assert page_cache.resident_bytes(files) == page_cache.needed_bytes(files)


def test_deleted_file_of_the_copy_comes_back(copied: ModelView, weights: Files) -> None:
    copy = copy_of(copied)
    untouched = (copy / FIRST).stat().st_ino
    with lost_and_back(copied, "WeightsMissing", "NotResident"):
        (copy / LAST).unlink()
    assert digests_in(copy) == digests_of(weights)
    assert (copy / FIRST).stat().st_ino == untouched, "more than the missing file was copied"


def test_altered_file_of_the_copy_is_replaced(copied: ModelView, weights: Files) -> None:
    copy = copy_of(copied)
    untouched = (copy / FIRST).stat().st_ino
    with lost_and_back(copied, "DigestMismatch", "NotResident"), (copy / LAST).open("r+b") as file:
        file.write(b"altered")
    assert digests_in(copy) == digests_of(weights)
    assert (copy / FIRST).stat().st_ino == untouched, "more than the altered file was copied"


def test_image_removed_by_hand_is_pulled_again(
    node: Node, held: ModelView, copied: ModelView
) -> None:
    engine, agent = uid(held.engine_pod()), uid(held.prefetch_pod())
    with lost_and_back(held, "ImageRemoved"):
        node.remove_images(f"{REGISTRY}/{REPOSITORY}")
    assert node.has_image(f"{REGISTRY}/{REPOSITORY}")
    assert uid(held.prefetch_pod()) != agent, "only a new pod makes the kubelet pull again"
    assert uid(held.engine_pod()) == engine, "an engine that has its weights was restarted"
    copied.wait_resident()


def test_garbage_collection_spares_what_is_prefetched(
    node: Node, held: ModelView, copied: ModelView, tmp_path: Path
) -> None:
    push_image(f"{REGISTRY}/{UNUSED}:1", good_weights("unused"), tmp_path / "unused")
    node.crictl("pull", f"{REGISTRY}/{UNUSED}:1")
    agents = [uid(view.prefetch_pod()) for view in (held, copied)]
    node_faults.collect_unused_images(lambda: not node.has_image(UNUSED))
    assert node.has_image(REPOSITORY)
    assert node.has_image("warmpod/engine-sim")
    for view in (held, copied):
        view.wait_resident()
    assert [uid(view.prefetch_pod()) for view in (held, copied)] == agents


def test_restart_of_containerd_takes_nothing_away(held: ModelView, copied: ModelView) -> None:
    pods = (held.engine_pod(), held.prefetch_pod(), copied.prefetch_pod())
    before = [(uid(pod), restarts(pod)) for pod in pods]
    node_faults.restart("containerd")
    for view in (held, copied):
        view.wait_resident()
    held.wait_ready()
    pods = (held.engine_pod(), held.prefetch_pod(), copied.prefetch_pod())
    assert [(uid(pod), restarts(pod)) for pod in pods] == before


def test_weights_are_resident_again_after_a_restart_of_the_node(
    api: Api, node: Node, held: ModelView, copied: ModelView, weights: Files
) -> None:
    boot, copy = boot_of(api, held), copy_of(copied)
    engine = restarts(held.engine_pod())
    with looked_at_again(held), looked_at_again(copied):
        node_faults.reboot()
    assert boot_of(api, held) != boot, "the node was not restarted"
    assert digests_in(copy) == digests_of(weights)
    files = shards(node.files_in(held.prefetch_pod(), "agent", "/images/model"))
    assert page_cache.resident_bytes(files) == page_cache.needed_bytes(files)
    held.wait_ready(timeout_s=240)
    assert restarts(held.engine_pod()) > engine


def shards(directory: Path) -> list[Path]:
    found = sorted(directory.glob("*.safetensors"))
    assert len(found) == len(SHARDS)
    return found


def copy_of(view: ModelView) -> Path:
    """The only copy in the node's memory."""
    digest = view.get()["status"]["model"]["digest"]
    return NODE_MEMORY.of_image(digest)


def boot_of(api: Api, view: ModelView) -> str:
    node = view.prefetch_pod()["spec"]["nodeName"]
    boot: str = api.get("Node", node)["status"]["nodeInfo"]["bootID"]
    return boot


def uid(pod: JsonObject) -> str:
    found: str = pod["metadata"]["uid"]
    return found


def restarts(pod: JsonObject) -> int:
    names = [container["name"] for container in pod["spec"]["containers"]]
    return sum(container_status(pod, name)["restartCount"] for name in names)
