"""Which step is next, and when there is none."""

import os
import signal
import subprocess
import sys
import threading
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
    Step("measure", nothing, needs=("operator", "weights"), alone=True),
    Step("measure-more", nothing, alone=True),
)


@pytest.mark.parametrize(
    ("states", "arrived", "name"),
    [
        ({}, set(), "weights"),
        ({}, {"programs"}, "cluster"),
        ({"cluster": DONE}, {"programs"}, "weights"),
        ({"cluster": DONE}, {"programs", "image"}, "operator"),
        ({"cluster": RUNNING}, {"programs", "image"}, "weights"),
        ({"cluster": RUNNING, "weights": DONE}, {"programs", "image"}, None),
        ({"cluster": FAILED, "weights": DONE}, {"programs", "image"}, "measure-more"),
        ({"measure-more": RUNNING}, {"programs", "image"}, None),
        ({"cluster": DONE, "operator": DONE, "weights": DONE}, {"programs", "image"}, "measure"),
    ],
)
def test_the_next_step_is_the_first_that_has_what_it_needs(
    states: dict[str, str], arrived: set[str], name: str | None
):
    found = runner.next_step(STEPS, states, arrived.__contains__)
    assert (found.name if found else None) == name


def test_it_is_over_when_nothing_can_run_any_more():
    some = STEPS[:-1]
    assert not runner.is_over(some, {"cluster": DONE, "weights": DONE})
    assert not runner.is_over(some, {"cluster": FAILED})
    assert runner.is_over(some, {"cluster": FAILED, "weights": DONE})
    assert runner.is_over(some, dict.fromkeys(("cluster", "operator", "weights", "measure"), DONE))


def test_a_step_leaves_a_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(machine, "STEPS", tmp_path)
    runner.run_one(Step("good", lambda: {"seen": 3}))
    assert runner.read("good")["result"] == {"seen": 3}
    with pytest.raises(ZeroDivisionError):
        runner.run_one(Step("bad", lambda: {"seen": 1 // 0}))
    assert runner.read("bad")["state"] == FAILED
    runner.forget(["bad"])
    assert runner.read("bad") == {}


def test_what_a_step_has_found_outlives_its_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def half() -> runner.JsonObject:
        runner.write("half", {"state": RUNNING, "result": {"starts": [1]}})
        raise AssertionError

    monkeypatch.setattr(machine, "STEPS", tmp_path)
    with pytest.raises(AssertionError):
        runner.run_one(Step("half", half))
    assert runner.read("half")["state"] == FAILED
    assert runner.read("half")["result"] == {"starts": [1]}


def test_a_step_that_takes_too_long_tidies_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    tidied = []

    def stuck() -> runner.JsonObject:
        try:
            threading.Event().wait(60)
        finally:
            tidied.append(True)
        return {}

    monkeypatch.setattr(machine, "STEPS", tmp_path)
    with pytest.raises(TimeoutError):
        runner.run_one(Step("stuck", stuck, limit_s=1))
    assert tidied
    assert runner.read("stuck")["state"] == FAILED


def test_all_that_is_ready_runs_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    met = threading.Barrier(2, timeout=20)

    def meet(step: Step) -> None:
        if not step.alone:
            met.wait()
        runner.write(step.name, {"state": DONE})

    monkeypatch.setattr(machine, "STEPS", tmp_path)
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "_run", meet)
    monkeypatch.setattr(runner, "_has_arrived", lambda bundle: True)
    runner.run_all((Step("one", nothing), Step("last", nothing, alone=True), Step("two", nothing)))
    assert runner.read("last")["state"] == DONE


def test_what_runs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    runner.stop()  # nothing runs
    program = (
        "from gpu import runner\n"
        "import time\n"
        "with runner._only_one():\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"WARMPOD_GPU_ROOT": str(tmp_path), "PYTHONPATH": "tests"},
        cwd=machine.TREE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout
    assert process.stdout.readline() == b"begun\n"
    runner.stop()
    assert process.wait(20) == -signal.SIGTERM


def test_only_some_measurements_can_be_wanted_in_an_order_of_their_own():
    names = [step.name for step in steps.wanted("plain warm-first")]
    assert names[-2:] == ["plain", "warm-first"]
    assert len(names) == len(steps.PREPARATION) + 2
    assert steps.wanted("") == (*steps.PREPARATION, *steps.MEASUREMENTS)


def test_a_measurement_needs_no_other():
    """One that fails stops none."""
    assert all(step.needs == steps.PREPARED for step in steps.MEASUREMENTS)


def test_steps_need_what_comes_before_them():
    known: list[str] = []
    for step in steps.STEPS:
        assert set(step.needs) <= set(known)
        known.append(step.name)
    assert len(set(known)) == len(known)
