"""Weights count as resident only when they were verified and measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.api import JsonObject
from support.images import REGISTRY, File, push_image
from support.models import ModelView, condition_of, warm_model
from support.weights import LAST, SHARDS, Files, good_weights

Create = Callable[[JsonObject], ModelView]


def missing_shard() -> Files:
    return {path: file for path, file in good_weights().items() if path != LAST}


def truncated_shard() -> Files:
    return good_weights() | {LAST: File(SHARDS[LAST][:-1])}


def flipped_byte() -> Files:
    content = bytearray(SHARDS[LAST])
    content[1234] ^= 1
    return good_weights() | {LAST: File(bytes(content))}


def unreadable() -> Files:
    return good_weights() | {LAST: File(SHARDS[LAST], mode=0o600)}


BROKEN = {
    "missing-shard": (missing_shard, "WeightsMissing"),
    "truncated-shard": (truncated_shard, "SizeMismatch"),
    "flipped-byte": (flipped_byte, "DigestMismatch"),
    "mode-0600": (unreadable, "WeightsNotReadable"),
}


@pytest.mark.parametrize("medium", ["Image", "NodeMemory"])
@pytest.mark.parametrize("fault", BROKEN)
def test_broken_weights_are_never_resident(
    create: Create, namespace: str, tmp_path: Path, fault: str, medium: str
) -> None:
    make, reason = BROKEN[fault]
    image = f"{REGISTRY}/test/{fault}:1"
    push_image(image, make(), tmp_path / "bad")
    size = {"size": "16Mi"} if medium == "NodeMemory" else {}
    model = warm_model(
        "broken", namespace, model={"image": image}, weights={"medium": medium, **size}
    )
    view = create(model)
    found = view.wait_condition("WeightsResident", "False", {reason})
    assert LAST in found["message"]
    view.wait_condition("Ready", "False", {reason})
    view.wait_condition("Stalled", "True", {reason})
    (prefetch,) = view.prefetch_pods()
    assert condition_of(prefetch, "Ready")["status"] == "False"
    assert view.engine_pods() == [], "an engine was started on weights that nobody has verified"

    repaired = f"{REGISTRY}/test/{fault}:2"
    push_image(repaired, good_weights(), tmp_path / "good")
    create(
        warm_model(
            "broken", namespace, model={"image": repaired}, weights={"medium": medium, **size}
        )
    )
    view.wait_condition("WeightsResident", "True", timeout_s=120)
    view.wait_ready(timeout_s=180)


def test_broken_weights_in_pod_memory(create: Create, namespace: str, tmp_path: Path) -> None:
    image = f"{REGISTRY}/test/pod-memory-flipped:1"
    push_image(image, flipped_byte(), tmp_path / "bad")
    view = create(
        warm_model(
            "podmemory",
            namespace,
            model={"image": image},
            weights={"medium": "PodMemory", "size": "16Mi"},
        )
    )
    found = view.wait_condition("WeightsResident", "False", {"DigestMismatch"})
    assert LAST in found["message"]
