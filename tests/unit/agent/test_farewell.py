"""When a store is needed no more; how what an agent keeps goes is tested with the service."""

from __future__ import annotations

from typing import Any

import pytest

from warmpod.agent.farewell import is_store_needed

NODE = {"spec": {"compileCache": {"store": "Node"}}}


@pytest.mark.parametrize(
    ("model", "needed"),
    [
        pytest.param(None, False, id="gone"),
        pytest.param({"metadata": {"uid": "u-2"}, **NODE}, False, id="another of its name"),
        pytest.param({"metadata": {"uid": "u-1"}, **NODE}, True, id="there"),
        pytest.param({"metadata": {"uid": "u-1"}, "spec": {}}, False, id="without a cache"),
        pytest.param(
            {"metadata": {"uid": "u-1"}, "spec": {"compileCache": {"store": "Image"}}},
            False,
            id="with another store",
        ),
        pytest.param({"metadata": {"uid": "u-1"}}, True, id="nobody can tell"),
    ],
)
def test_a_store_is_needed_while_its_model_wants_one(
    model: dict[str, Any] | None, needed: bool
) -> None:
    assert is_store_needed(model, "u-1") is needed
