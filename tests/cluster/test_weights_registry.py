"""Registries that want a password, that go away, and in which tags move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.api import Api, JsonObject
from support.copies import digests_in, digests_of
from support.images import REGISTRY, push_image
from support.models import ModelView, held_model, warm_model, with_engine
from support.namespaces import temporary_namespace
from support.node import Node
from support.private_registry import HOST, private_registry, pull_secret
from support.waiting import wait_until
from support.weights import good_weights

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]

REPOSITORY = "test/weights-private"
IMAGE = f"{HOST}/{REPOSITORY}:1"
MOVED = f"{REGISTRY}/test/weights-moved:1"


@dataclass(frozen=True)
class Private:
    """A model from a private registry, which answers until `close`."""

    view: ModelView
    close: Callable[[], None]


@pytest.fixture(scope="module")
def private(api: Api, node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Private]:
    node.remove_images(REPOSITORY)
    push_image(
        f"{REGISTRY}/{REPOSITORY}:1", good_weights("private"), tmp_path_factory.mktemp("i") / "1"
    )
    with temporary_namespace(api, "test-private-") as namespace, ExitStack() as registry:
        registry.enter_context(private_registry())
        api.create(pull_secret("right", namespace))
        api.create(pull_secret("wrong", namespace, password="guessed"))
        api.apply(private_model("private", namespace, "right", replicas=1))
        view = ModelView(api, "private", namespace)
        view.wait_ready()
        yield Private(view, registry.close)


def private_model(name: str, namespace: str, *secrets: str, replicas: int = 0) -> JsonObject:
    pod = {"imagePullSecrets": [{"name": secret} for secret in secrets]}
    return held_model(name, namespace, IMAGE, replicas=replicas, pod=pod)


@pytest.mark.parametrize("secrets", [("wrong",), ()], ids=["wrong secret", "no secret"])
def test_weights_on_the_node_are_not_for_those_without_the_password(
    api: Api, private: Private, secrets: tuple[str, ...]
) -> None:
    """The image is there, pulled with another secret; whoever may not pull it may not use it."""
    name = f"refused-{len(secrets)}"
    api.apply(private_model(name, private.view.namespace, *secrets, replicas=1))
    refused = ModelView(api, name, private.view.namespace)
    refused.wait_condition("Prefetched", "False", {"ImagePullAuth"})
    refused.wait_condition("Ready", "False", {"ImagePullAuth"})
    assert refused.engine_pods() == []
    api.apply(private_model(name, private.view.namespace, "right"))
    refused.wait_resident()
    api.delete("WarmModel", name, private.view.namespace)


def test_pods_start_while_the_registry_is_down(api: Api, private: Private) -> None:
    """The last of the private ones: the registry does not come back."""
    view = private.view
    private.close()
    old = view.engine_pod()["metadata"]
    api.delete("Pod", old["name"], view.namespace)
    wait_until(
        "another pod serves",
        lambda: (
            view.ready_addresses()
            and old["uid"] not in {pod["metadata"]["uid"] for pod in view.engine_pods()}
        ),
        timeout_s=120,
        describe=view.conditions,
    )
    api.patch("WarmModel", view.name, view.namespace, {"spec": {"replicas": 2}})
    wait_until(
        "two pods serve",
        lambda: len(view.ready_addresses()) == 2,
        timeout_s=120,
        describe=view.conditions,
    )


def test_moved_tag_changes_nothing_until_the_spec_does(
    api: Api, node: Node, create: Create, namespace: str, tmp_path: Path
) -> None:
    before, after = good_weights(f"{namespace} 1"), good_weights(f"{namespace} 2")
    first = push_image(MOVED, before, tmp_path / "first")
    model = warm_model("moved", namespace, model={"image": MOVED})
    view = create(model)
    view.wait_ready()

    second = push_image(MOVED, after, tmp_path / "second")
    api.patch("WarmModel", "moved", namespace, {"spec": {"replicas": 2}})
    wait_until("two pods serve", lambda: len(view.ready_addresses()) == 2, timeout_s=120)
    api.delete("Pod", view.prefetch_pod()["metadata"]["name"], namespace)
    wait_until("another agent", lambda: staying(view.prefetch_pods()), timeout_s=60)
    view.wait_resident()
    assert view.get()["status"]["model"]["digest"] == first
    assert [weights_of(node, pod) for pod in view.engine_pods()] == [digests_of(before)] * 2

    changed = with_engine(model, args=["--max-model-len=128"])
    changed["spec"]["replicas"] = 2
    create(changed)
    view.wait_ready(timeout_s=240)
    assert view.get()["status"]["model"]["digest"] == second
    wait_until("no old pod is left", lambda: len(view.engine_pods()) == 2, timeout_s=120)
    assert [weights_of(node, pod) for pod in view.engine_pods()] == [digests_of(after)] * 2


def staying(pods: list[JsonObject]) -> bool:
    return len(pods) == 1 and "deletionTimestamp" not in pods[0]["metadata"]


def weights_of(node: Node, pod: JsonObject) -> dict[str, str]:
    return digests_in(node.files_in(pod, "engine", "/models/moved"))
