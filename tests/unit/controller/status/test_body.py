"""Counts of the status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.controller.builders import Object, World, engine, prefetch, warm_model

PREFETCHED = World().store().prefetching(1, prefetch().resident())


def status(*pods: Any, replicas: int = 1) -> Object:
    world = replace(PREFETCHED, model=warm_model(replicas=replicas)).deployed(*pods)
    found = world.plan().status
    assert found is not None
    return found


OLD = "0123456789"


@pytest.mark.parametrize(
    ("pods", "counts"),
    [
        ([], (0, 0, 0)),
        ([engine()], (1, 0, 0)),
        ([engine().running()], (1, 0, 0)),
        ([engine().warm()], (1, 1, 1)),
        ([engine().warm().of(OLD)], (1, 1, 0)),
        ([engine().warm().gone()], (0, 0, 0)),
        ([engine().failed("Evicted")], (0, 0, 0)),
        ([engine("a").warm(), engine("b").running(), engine("c").warm().of(OLD)], (3, 2, 1)),
        ([engine().warm().condition("Ready", "False")], (1, 0, 0)),
    ],
)
def test_counts(pods: list[Any], counts: tuple[int, int, int]) -> None:
    found = status(*pods, replicas=3)
    assert (found["replicas"], found["readyReplicas"], found["warmReplicas"]) == counts


def test_the_selector_is_filled_without_a_single_pod() -> None:
    found = status(replicas=0)["selector"]
    assert found == ("warmpod.io/model=llama,warmpod.io/component=engine,warmpod.io/role=serving")
