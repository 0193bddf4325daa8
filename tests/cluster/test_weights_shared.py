"""Two WarmModels with the same weights: one copy in the node's memory, until the last one goes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from support.api import Api, JsonObject
from support.copies import NODE_MEMORY, digests_in, digests_of, is_whole, size_of
from support.images import REGISTRY, push_image
from support.models import ModelView, held_model
from support.node import Node
from support.waiting import wait_until
from support.weights import good_weights

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]


@pytest.mark.parametrize("operator", ["running", "away"])
def test_one_copy_until_the_last_one_goes(
    api: Api,
    node: Node,
    create: Create,
    namespace: str,
    operator_away: Callable[[], AbstractContextManager[None]],
    operator: str,
    tmp_path: Path,
) -> None:
    weights = good_weights(namespace)
    image = f"{REGISTRY}/test/weights-shared:{namespace}"
    digest = push_image(image, weights, tmp_path / "image")
    copy = NODE_MEMORY.of_image(digest)
    others = NODE_MEMORY.names()
    one = create(held_model("one", namespace, image, "NodeMemory"))
    two = create(held_model("two", namespace, image, "NodeMemory", replicas=1))
    one.wait_resident()
    two.wait_ready()

    assert NODE_MEMORY.names() - others == {copy.name}
    assert NODE_MEMORY.stored_bytes(others) == size_of(weights)
    inodes = {path.name: path.stat().st_ino for path in copy.iterdir()}

    with operator_away() if operator == "away" else nullcontext():
        api.delete("WarmModel", "one", namespace)
        wait_until("its agent is gone", lambda: not one.prefetch_pods(), timeout_s=120)
        assert is_whole(copy, weights)
        assert {path.name: path.stat().st_ino for path in copy.iterdir()} == inodes
        engine = node.files_in(two.engine_pod(), "engine", "/models/two")
        assert digests_in(engine) == digests_of(weights)

        api.delete("WarmModel", "two", namespace)
        wait_until("node memory is free", lambda: not copy.exists(), timeout_s=120)
    assert NODE_MEMORY.names() <= others
