"""The condition StandbyReady, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from unit.controller.builders import (
    NOW,
    Object,
    PodWrapper,
    World,
    ago,
    engine,
    prefetch,
    warm_model,
)
from warmpod.controller.status.transitions import transitions


def world(*pods: PodWrapper, since: str = "", **standby: Any) -> World:
    """One pod is to serve. `since`: since when standby pods are missing already."""
    condition = {"type": "StandbyReady", "status": "False", "lastTransitionTime": since}
    status: Object = {"conditions": [condition] if since else []}
    model = warm_model(standby={"replicas": 1, **standby}, status=status)
    found = World(model).store().prefetching(1, prefetch().resident())
    return found.deployed(engine("serves").warm(), *pods, replicas=2)


def standby_ready(found: World) -> tuple[str, str]:
    condition = found.conditions()["StandbyReady"]
    return condition["status"], condition["reason"]


SLEEPING = {"state": "Sleeping"}
LIMITED = {"maxUnfilledSeconds": 60}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(world(replicas=0), ("True", "NoStandbyRequested"), id="none asked for"),
        pytest.param(world(engine().warm().standby()), ("True", "StandbyFilled"), id="warm"),
        pytest.param(world(engine().running().standby()), ("False", "StandbyRefilling"), id="cold"),
        pytest.param(world(), ("False", "StandbyRefilling"), id="missing"),
        pytest.param(
            world(since=ago(days=3)), ("False", "StandbyRefilling"), id="missing, without a limit"
        ),
        pytest.param(
            world(since=ago(seconds=59), **LIMITED), ("False", "StandbyRefilling"), id="missing yet"
        ),
        pytest.param(
            world(since=ago(seconds=60), **LIMITED),
            ("False", "StandbyUnfilled"),
            id="missing for too long",
        ),
        pytest.param(
            world(engine().asleep().standby(), **SLEEPING), ("True", "StandbyFilled"), id="asleep"
        ),
        pytest.param(
            world(engine().asleep().standby()),
            ("False", "StandbyRefilling"),
            id="put to sleep by somebody else",
        ),
    ],
)
def test_standby_ready(found: World, expected: tuple[str, str]) -> None:
    assert standby_ready(found) == expected


def test_a_missing_standby_pod_is_no_problem_of_the_model() -> None:
    conditions = world(engine().not_warm("EngineGaveUp", "no memory").standby()).conditions()
    assert conditions["Ready"]["status"] == "True"
    assert conditions["Stalled"]["status"] == "False"
    assert "no memory" in conditions["StandbyReady"]["message"]


def test_a_pod_that_is_woken_is_no_problem() -> None:
    called = engine("b").asleep().annotated(promoted_at=ago(seconds=3), promoted_from="Sleeping")
    found = world(called, **SLEEPING).change(replicas=2)
    assert found.conditions()["Ready"]["reason"] == "WaitingForWarmPods"


def test_it_is_looked_at_again_when_the_limit_is_over() -> None:
    assert world(since=ago(seconds=20), **LIMITED).plan(NOW).requeue_after == 40


def test_a_promoted_pod_counts_when_every_node_knows() -> None:
    promoted = engine("b").warm().annotated(promoted_at=ago(seconds=1))
    found = world(promoted, replicas=0).change(replicas=2)
    assert found.conditions()["Ready"]["reason"] == "WaitingForEndpoints"


@pytest.mark.parametrize(
    ("reason", "status", "told"),
    [
        ("NoStandbyRequested", "True", []),
        ("StandbyFilled", "True", [("Normal", "StandbyFilled")]),
        ("StandbyRefilling", "False", []),
        ("StandbyUnfilled", "False", [("Warning", "StandbyUnfilled")]),
    ],
)
def test_what_is_told(reason: str, status: str, told: list[tuple[str, str]]) -> None:
    condition = {"type": "StandbyReady", "status": status, "reason": reason, "message": ""}
    found = transitions({}, {"conditions": [condition]})
    assert [(one.type, one.reason) for one in found] == told
