"""Nodes that lose the weights become events: at once, but not one by one."""

from __future__ import annotations

import pytest

from unit.controller.builders import NAME, NAMESPACE, PodWrapper, engine, prefetch
from warmpod.controller.telling.residency import PAUSE, Residency

KEY = (NAMESPACE, NAME)
DROPPED = "3.0Gi of 17.0Gi were dropped from memory; reading them again"


class Watch:
    """The watch of pods, and the clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.residency = Residency(clock=lambda: self.now)
        self._views = dict[str, object]()

    def see(self, *states: PodWrapper) -> None:
        for state in states:
            view = state.view()
            before = self._views.get(state.name)
            self.residency.changed(before, view)  # type: ignore[arg-type]
            self._views[state.name] = view

    def told(self) -> list[tuple[str, str, str]]:
        return [(e.type, e.reason, e.message) for e in self.residency.take(KEY)]

    def told_later(self) -> list[tuple[str, str, str]]:
        self.now += PAUSE
        return self.told()


@pytest.fixture
def watch() -> Watch:
    return Watch()


def on(node: str) -> PodWrapper:
    return prefetch(f"pod-{node}").on(node)


def test_a_loss_is_told_with_node_reason_and_message(watch: Watch) -> None:
    watch.see(on("a").resident(), on("a").not_resident("NotResident", DROPPED))
    assert watch.told() == [("Warning", "ResidencyLost", f"a: NotResident: {DROPPED}")]
    assert watch.told_later() == []


def test_and_so_is_that_they_are_back(watch: Watch) -> None:
    watch.see(on("a").resident(), on("a").not_resident("NotResident", DROPPED))
    watch.told()
    watch.see(on("a").resident())
    assert watch.told_later() == [
        ("Normal", "ResidencyRestored", "a: the weights are resident again")
    ]


def test_what_befalls_many_nodes_at_once_is_one_event_a_reason(watch: Watch) -> None:
    for name in "abcde":
        watch.see(on(name).resident(), on(name).not_resident("NotResident", DROPPED))
    watch.see(on("f").resident(), on("f").not_resident("DigestMismatch", "shard 1"))
    assert watch.told() == [
        ("Warning", "ResidencyLost", "f: DigestMismatch: shard 1"),
        ("Warning", "ResidencyLost", f"a, b, c and 2 more nodes: NotResident: {DROPPED}"),
    ]


def test_a_flapping_node_is_told_of_now_and_then(watch: Watch) -> None:
    for _ in range(50):
        watch.see(on("a").resident(), on("a").not_resident("NotResident", DROPPED))
        if watch.told():
            assert watch.residency.due(KEY) is None
    watch.see(on("a").resident(), on("a").not_resident("NotResident", DROPPED))
    assert watch.told() == []
    assert watch.residency.due(KEY) == PAUSE
    assert [reason for _, reason, _ in watch.told_later()] == ["ResidencyLost", "ResidencyRestored"]


def test_a_pod_that_does_not_know_of_its_loss_brings_nothing_back(watch: Watch) -> None:
    watch.see(prefetch("one").on("a").resident())
    watch.residency.lost(KEY, "a", "ImageRemoved", "somebody removed the image")
    watch.told()
    watch.see(prefetch("one").on("a").resident().labelled())
    assert watch.told_later() == []


def test_a_new_pod_on_the_node_can_be_what_is_back(watch: Watch) -> None:
    """Such as after an image was removed, and the pod with it."""
    watch.residency.lost(KEY, "a", "ImageRemoved", "somebody removed the image")
    watch.told()
    watch.see(prefetch("another").on("a").resident())
    assert [reason for _, reason, _ in watch.told_later()] == ["ResidencyRestored"]


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([on("a").not_resident("NotResident")], id="seen for the first time"),
        pytest.param([on("a").resident()], id="there from the start"),
        pytest.param([on("a").not_resident("Verifying"), on("a").resident()], id="there at last"),
        pytest.param(
            [on("a").not_resident("Verifying"), on("a").not_resident("NotResident")], id="never"
        ),
        pytest.param(
            [on("a").resident(), on("a").not_resident("Resident", "stopping").gone()],
            id="somebody wants the pod to go",
        ),
        pytest.param([engine().warm(), engine().not_warm("EngineDied")], id="an engine"),
    ],
)
def test_all_else_is_not_told(watch: Watch, states: list[PodWrapper]) -> None:
    watch.see(*states)
    assert watch.told() == []
    assert watch.residency.due(KEY) is None
