"""How the pace of two revisions compares: tables."""

from __future__ import annotations

import pytest

from unit.controller.builders import engine
from warmpod.controller.rollouts.baseline import Baseline, compare, hardware, of_pod, read


def measured(*, hardware: str = "H200", **fastest: float) -> Baseline:
    return Baseline("llama-0", hardware, fastest)


@pytest.mark.parametrize(
    ("before", "now", "percent"),
    [
        pytest.param({"a": 100.0}, {"a": 100.0}, 0, id="the same"),
        pytest.param({"a": 100.0}, {"a": 160.0}, 60, id="slower"),
        pytest.param({"a": 100.0}, {"a": 50.0}, -50, id="faster"),
        pytest.param({"a": 5.0}, {"a": 19.0}, 0, id="by less than anybody notices"),
        pytest.param({"a": 5.0}, {"a": 25.0}, 400, id="by more than that"),
        pytest.param({"a": 0.0}, {"a": 50.0}, 49900, id="from nothing"),
        pytest.param(
            {"a": 100.0, "b": 100.0, "c": 100.0},
            {"a": 100.0, "b": 100.0, "c": 900.0},
            0,
            id="one bucket of three is a stroke of bad luck",
        ),
        pytest.param(
            {"a": 100.0, "b": 100.0, "c": 100.0},
            {"a": 100.0, "b": 200.0, "c": 200.0},
            100,
            id="most buckets are not",
        ),
        pytest.param({"a": 100.0, "b": 1.0}, {"a": 100.0, "c": 900.0}, 0, id="what both have"),
    ],
)
def test_compare(before: dict[str, float], now: dict[str, float], percent: int) -> None:
    found = compare(measured(**before), measured(**now))
    assert found is not None
    assert found.percent == percent


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(measured(a=1), measured(b=1), id="no bucket in common"),
        pytest.param(measured(), measured(a=1), id="nothing was measured before"),
        pytest.param(measured(a=1), measured(), id="nothing was measured now"),
        pytest.param(measured(a=1), measured(a=9, hardware="A10"), id="other hardware"),
    ],
)
def test_what_cannot_be_compared(before: Baseline, now: Baseline) -> None:
    assert compare(before, now) is None


def test_the_message_names_those_that_lost_most() -> None:
    before = measured(a=100, b=100, c=100, d=100)
    found = compare(before, measured(a=200, b=900, c=300, d=400))
    assert str(found) == (
        "time to first token 250 % longer in the median of 4 kinds of requests (b 100 → 900 ms, "
        "d 100 → 400 ms, c 100 → 300 ms)"
    )


def test_it_is_read_as_it_was_written() -> None:
    found = measured(**{"chat/16x1": 12.5})
    assert read(found.text()) == found


@pytest.mark.parametrize("text", ["", "x", "[]", "3", "null"])
def test_what_nobody_of_ours_wrote_is_none(text: str) -> None:
    assert read(text) is None


def test_odd_values_are_left_out() -> None:
    assert read('{"pod": 3, "fastest": {"a": "x", "b": 2}}') == Baseline("", "", {"b": 2.0})


def test_a_pod_tells_it_once_its_gate_is_open() -> None:
    assert of_pod(engine().warm().view(), "H200") is None
    assert of_pod(engine().timeline(boot="b").view(), "H200") is None
    told = engine().timeline(boot="b", gate=1e9, fastest={"a": 3})
    assert of_pod(told.view(), "H200") == measured(a=3)


def test_hardware_is_what_the_labels_tell() -> None:
    assert hardware({}) == ""
    kind = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    assert hardware(kind) == "p5.48xlarge"
    assert hardware(kind | {"nvidia.com/gpu.product": "H200"}) == "H200"
