"""Which step is next, and when there is none."""

from pathlib import Path

import pytest

from gpu import machine, runner, steps
from gpu.runner import DONE, FAILED, RUNNING, Step


def nothing() -> runner.JsonObject:
    return {}


STEPS = (
    Step("cluster", nothing, bundles=("programs",)),
    Step("operator", nothing, needs=("cluster",), bundles=("image",)),
    Step("weights", nothing),
    Step("measure", nothing, needs=("operator", "weights")),
)


@pytest.mark.parametrize(
    ("states", "arrived", "name"),
    [
        ({}, set(), "weights"),
        ({}, {"programs"}, "cluster"),
        ({"cluster": DONE}, {"programs"}, "weights"),
        ({"cluster": DONE}, {"programs", "image"}, "operator"),
        ({"cluster": RUNNING, "weights": DONE}, {"programs", "image"}, None),
        ({"cluster": FAILED, "weights": DONE}, {"programs", "image"}, None),
        ({"cluster": DONE, "operator": DONE, "weights": DONE}, {"programs", "image"}, "measure"),
    ],
)
def test_the_next_step_is_the_first_that_has_what_it_needs(
    states: dict[str, str], arrived: set[str], name: str | None
):
    found = runner.next_step(STEPS, states, arrived.__contains__)
    assert (found.name if found else None) == name


def test_it_is_over_when_nothing_can_run_any_more():
    assert not runner.is_over(STEPS, {"cluster": DONE, "weights": DONE})
    assert not runner.is_over(STEPS, {"cluster": FAILED})
    assert runner.is_over(STEPS, {"cluster": FAILED, "weights": DONE})
    assert runner.is_over(STEPS, dict.fromkeys(("cluster", "operator", "weights", "measure"), DONE))


def test_a_step_leaves_a_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(machine, "STEPS", tmp_path)
    runner.run_one(Step("good", lambda: {"seen": 3}))
    assert runner.read("good")["result"] == {"seen": 3}
    with pytest.raises(ZeroDivisionError):
        runner.run_one(Step("bad", lambda: {"seen": 1 // 0}))
    assert runner.read("bad")["state"] == FAILED
    runner.forget(["bad"])
    assert runner.read("bad") == {}


def test_steps_need_what_comes_before_them():
    known: list[str] = []
    for step in steps.STEPS:
        assert set(step.needs) <= set(known)
        known.append(step.name)
    assert len(set(known)) == len(known)
