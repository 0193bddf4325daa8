"""One line about the nodes: how many, and what the slowest is at."""

from __future__ import annotations

import pytest

from unit.controller.builders import PodWrapper, World, prefetch
from warmpod.api.status import MAX_PROGRESS

STORED = World().store()
HERE = prefetch("a").on("node-a").resident()
VERIFYING = "verified {} % of 17.0Gi at 1.9Gi/s, 5 s left"


def line(nodes: int, *pods: PodWrapper) -> str | None:
    status = STORED.prefetching(nodes, *pods).plan().status
    assert status is not None
    found: str | None = status["nodes"].get("progress")
    return found


def verifying(name: str, percent: int) -> PodWrapper:
    return prefetch(name).on(f"node-{name}").not_resident("Verifying", VERIFYING.format(percent))


@pytest.mark.parametrize(
    ("nodes", "pods", "shown"),
    [
        (0, (), "0/0 resident"),
        (1, (), "0/1 resident"),
        (1, (HERE,), "1/1 resident"),
        (
            2,
            (HERE, prefetch("b").waiting_for("node-b")),
            "1/2 resident; node-b: waits for the scheduler",
        ),
        (
            2,
            (
                HERE,
                prefetch("b")
                .waiting_for("node-b")
                .condition("PodScheduled", "False", "SchedulingGated"),
            ),
            "1/2 resident; node-b: waits for its turn",
        ),
        (2, (HERE, prefetch("b").on("node-b")), "1/2 resident; node-b: pulls the images"),
        (
            2,
            (HERE, prefetch("b").on("node-b").running()),
            "1/2 resident; node-b: starts to look at the weights",
        ),
        (2, (HERE, verifying("b", 40)), f"1/2 resident; node-b: {VERIFYING.format(40)}"),
        (
            3,
            (verifying("b", 90), verifying("c", 5), HERE),
            f"1/3 resident; node-c: {VERIFYING.format(5)}",
        ),
        (
            3,
            (prefetch("b").on("node-b").not_resident("Loading", "loaded 1 %"), verifying("c", 90)),
            f"0/3 resident; node-c: {VERIFYING.format(90)}",
        ),
        (
            2,
            (HERE, prefetch("b").on("node-b").not_resident("DigestMismatch", "shard 1")),
            "1/2 resident; node-b: DigestMismatch",
        ),
        (
            3,
            (prefetch("b").on("node-b").not_resident("DigestMismatch"), verifying("c", 5)),
            f"0/3 resident; node-c: {VERIFYING.format(5)}",
        ),
    ],
)
def test_line(nodes: int, pods: tuple[PodWrapper, ...], shown: str) -> None:
    assert line(nodes, *pods) == shown


def test_nothing_is_claimed_while_nothing_is_known() -> None:
    status = STORED.plan().status
    assert status is not None
    assert "progress" not in status["nodes"]


def test_a_table_has_room_for_it() -> None:
    found = line(2, HERE, prefetch("b").on("node-b").not_resident("Verifying", "x" * 1000))
    assert found is not None
    assert len(found) == MAX_PROGRESS


def test_the_condition_says_the_same() -> None:
    message = STORED.prefetching(2, HERE, verifying("b", 40)).conditions()["WeightsResident"][
        "message"
    ]
    assert message == f"1 of 2 nodes have the weights. node-b: {VERIFYING.format(40)}"
