"""New weights are on the node before the first pod changes; old ones go when nothing uses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.api import JsonObject
from support.copies import NODE_MEMORY, digests_in, digests_of, is_whole
from support.images import REGISTRY, push_image
from support.models import ModelView, condition_of, held_model
from support.node import Node
from support.traffic import Traffic
from support.waiting import wait_until
from support.weights import Files, good_weights
from warmpod.quantity import to_bytes

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]

SIZE = "128Mi"


def test_new_weights_come_first_and_old_ones_go_last(
    node: Node, create: Create, namespace: str, tmp_path: Path
) -> None:
    old, new = good_weights(f"{namespace} 1"), good_weights(f"{namespace} 2")
    old_image, old_copy = pushed(old, namespace, "1", tmp_path)
    new_image, new_copy = pushed(new, namespace, "2", tmp_path)
    view = create(copied(namespace, old_image))
    view.wait_ready()
    old_engine, old_agent = uid(view.engine_pod()), uid(view.prefetch_pod())

    with Traffic(view.service_url(), "rollout") as traffic:
        create(copied(namespace, new_image))
        (engine,) = wait_until(
            "a pod of the new revision exists",
            lambda: [pod for pod in view.engine_pods() if uid(pod) != old_engine],
            timeout_s=180,
            describe=view.conditions,
        )
        (agent,) = [pod for pod in view.prefetch_pods() if uid(pod) != old_agent]
        resident = condition_of(agent, "warmpod.io/Resident")
        assert resident["status"] == "True"
        assert resident["lastTransitionTime"] <= engine["metadata"]["creationTimestamp"]
        assert is_whole(new_copy, new)
        assert is_whole(old_copy, old), "weights that an engine uses were removed"
        both = [reserved(pod) for pod in view.prefetch_pods()]
        assert len(both) == 2
        assert min(both) >= to_bytes(SIZE), "the scheduler does not know of both copies"
        view.wait_ready(timeout_s=240)
        wait_until("the old pod is gone", lambda: len(view.engine_pods()) == 1, timeout_s=120)
    assert traffic.failures == []

    mounted = node.files_in(view.engine_pod(), "engine", "/models/rollout")
    assert digests_in(mounted) == digests_of(new)
    wait_until("the old agent is gone", lambda: len(view.prefetch_pods()) == 1, timeout_s=240)
    wait_until("the old copy is gone", lambda: not old_copy.exists(), timeout_s=240)
    assert is_whole(new_copy, new)
    view.wait_resident()


def copied(namespace: str, image: str) -> JsonObject:
    return held_model("rollout", namespace, image, "NodeMemory", SIZE, replicas=1)


def pushed(weights: Files, namespace: str, tag: str, folder: Path) -> tuple[str, Path]:
    """The image, and where agents put its copy."""
    image = f"{REGISTRY}/test/weights-rollout:{namespace}-{tag}"
    digest = push_image(image, weights, folder / tag)
    return image, NODE_MEMORY.of_image(digest)


def reserved(pod: JsonObject) -> int:
    """Bytes that the scheduler counts."""
    requests = (c["resources"]["requests"]["memory"] for c in pod["spec"]["containers"])
    return sum(map(to_bytes, requests))


def uid(pod: JsonObject) -> str:
    found: str = pod["metadata"]["uid"]
    return found
