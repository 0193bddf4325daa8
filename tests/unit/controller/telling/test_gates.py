"""Closed gates become events, once, and only those that nobody wanted."""

from __future__ import annotations

import pytest

from unit.controller.builders import NAME, NAMESPACE, PodWrapper, engine
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.objects.views import project
from warmpod.controller.telling.gates import MOST_NEWS, Gates

KEY = (NAMESPACE, NAME)


def told(*states: PodWrapper) -> list[tuple[str, str, str]]:
    gates = Gates()
    views = [state.view() for state in states]
    for before, after in zip([None, *views], views, strict=False):
        gates.changed(before, after)
    found = [(each.type, each.reason, each.message) for each in gates.take(KEY)]
    assert gates.take(KEY) == []
    return found


def test_a_gate_that_closes_is_told_with_its_reason() -> None:
    assert told(engine().warm(), engine().not_warm("EngineDied", "boot b ended")) == [
        (
            "Warning",
            "GateClosed",
            "pod llama-0 takes no traffic: EngineDied: boot b ended",
        )
    ]


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([engine().not_warm("EngineDied")], id="seen for the first time"),
        pytest.param([engine().running(), engine().not_warm("WarmingUp")], id="never open"),
        pytest.param([engine().warm(), engine().warm()], id="stays open"),
        pytest.param([engine().not_warm("WarmingUp"), engine().warm()], id="opens"),
        pytest.param([engine().warm(), engine().not_warm("Stopping")], id="is being stopped"),
        pytest.param([engine().warm(), engine().not_warm("FallingAsleep")], id="is to sleep"),
        pytest.param([engine().warm(), engine().not_warm("EngineDied").gone()], id="deleted"),
        pytest.param(
            [engine().not_warm("EngineDied"), engine().not_warm("EngineStarting")],
            id="another reason while closed",
        ),
    ],
)
def test_all_else_is_not_told(states: list[PodWrapper]) -> None:
    assert told(*states) == []


def test_a_pod_that_replaced_one_of_the_same_name_has_closed_nothing() -> None:
    before, after = engine().warm().view(), engine().not_warm("WarmingUp")
    other = after.body()
    other["metadata"]["uid"] = "another"
    gates = Gates()
    gates.changed(before, project(POD, other))
    assert gates.take(KEY) == []


def test_a_flapping_pod_does_not_fill_the_memory() -> None:
    assert len(told(*[engine().warm(), engine().not_warm("CanaryFailed")] * 100)) == MOST_NEWS
