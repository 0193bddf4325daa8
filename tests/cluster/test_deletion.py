"""Deleting a WarmModel removes everything it made, node memory included."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from support.api import KINDS, Api, JsonObject
from support.copies import NODE_MEMORY
from support.images import REGISTRY, push_image
from support.models import ModelView, warm_model
from support.waiting import wait_until
from support.weights import good_weights

pytestmark = pytest.mark.alone

SELECTOR = "warmpod.io/model=gone"
MADE = (
    "Deployment",
    "ReplicaSet",
    "DaemonSet",
    "ControllerRevision",
    "Pod",
    "Service",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "PodDisruptionBudget",
    "EndpointSlice",
)


@pytest.mark.parametrize("operator", ["running", "away"])
def test_everything_is_gone(
    api: Api,
    create: Callable[[JsonObject], ModelView],
    namespace: str,
    operator_away: Callable[[], AbstractContextManager[None]],
    operator: str,
    tmp_path: Path,
) -> None:
    image = f"{REGISTRY}/test/gone:{namespace}"
    digest = push_image(image, good_weights(note=namespace), tmp_path / "image")
    copy = NODE_MEMORY.of_image(digest)
    weights = {"medium": "NodeMemory", "size": "16Mi"}
    view = create(warm_model("gone", namespace, model={"image": image}, weights=weights))
    view.wait_ready()
    assert list(copy.glob("*.safetensors")), "the weights are not in the node's memory"
    assert all(left_of(api, kind, namespace) for kind in MADE), "some child has no label of ours"

    with operator_away() if operator == "away" else nullcontext():
        api.delete("WarmModel", "gone", namespace)
        for kind in MADE:
            wait_until(
                f"no {kind} is left",
                lambda kind=kind: not left_of(api, kind, namespace),
                timeout_s=180,
            )
        wait_until("node memory is free", lambda: not copy.exists(), timeout_s=60)


def test_no_finalizer_and_spec_untouched(
    api: Api, create: Callable[[JsonObject], ModelView], namespace: str
) -> None:
    """The operator never writes a WarmModel's spec or metadata."""
    view = create(warm_model("untouched", namespace))
    view.wait_ready()
    metadata = view.get()["metadata"]
    assert metadata.get("finalizers", []) == []
    assert metadata.get("annotations", {}) == {}
    assert metadata["generation"] == 1
    writers = {
        entry["manager"]: set(entry["fieldsV1"])
        for entry in metadata["managedFields"]
        if entry.get("subresource") != "status"
    }
    assert set(writers) == {"tests"}


def left_of(api: Api, kind: str, namespace: str) -> list[JsonObject]:
    assert kind in KINDS
    return api.list(kind, namespace, SELECTOR)
