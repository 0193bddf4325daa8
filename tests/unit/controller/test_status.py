"""Counts and start-ups of the status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.controller.builders import NOW, Object, World, engine, prefetch, warm_model

GATE = NOW.timestamp()
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


def test_a_start_up_in_full() -> None:
    pod = (
        engine()
        .warm()
        .timeline(
            boot="0123456789ab",
            number=1,
            cause="pod-start",
            launcher=GATE - 100,
            boot_started=GATE - 90,
            stages={"ready": GATE - 31},
            http=GATE - 30,
            first_token=GATE - 20,
            rounds=4,
            gate=GATE,
            first_ttft_ms=840.4,
            steady_ttft_ms=21.6,
            compile="miss",
        )
    )
    (found,) = status(pod)["lastStartups"]
    assert found == {
        "pod": "llama-0",
        "revision": World().hash,
        "boot": "0123456789ab",
        "cause": "pod-start",
        "compile": "miss",
        "warmTime": "2030-01-01T12:00:00Z",
        "startSeconds": 120,
        "weightsSeconds": 10,
        "engineSeconds": 60,
        "warmupSeconds": 30,
        "rounds": 4,
        "firstTokenMilliseconds": 840,
        "steadyTokenMilliseconds": 22,
    }


def test_a_boot_in_place_counts_from_the_boot() -> None:
    pod = engine().warm().timeline(cause="engine-died", boot_started=GATE - 40, gate=GATE)
    (found,) = status(pod)["lastStartups"]
    assert found["startSeconds"] == 40
    assert "weightsSeconds" not in found


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"gate": None},
        {"gate": "soon"},
        {"gate": True},
        {"gate": -1},
        {"gate": 1e300},
        {"gate": float("nan")},
    ],
)
def test_a_timeline_that_makes_no_sense_is_left_out(message: Object) -> None:
    assert status(engine().warm().timeline(**message))["lastStartups"] == []


def test_odd_fields_of_a_timeline_are_left_out() -> None:
    pod = (
        engine()
        .warm()
        .timeline(
            gate=GATE, boot=7, cause=["x"], http="x", rounds=None, first_ttft_ms=-5, compile=""
        )
    )
    (found,) = status(pod)["lastStartups"]
    assert set(found) == {"pod", "revision", "warmTime"}


def test_lengths_beyond_what_the_api_takes_are_left_out() -> None:
    pod = (
        engine()
        .warm()
        .timeline(cause="engine-died", boot_started=1.0, gate=GATE, rounds=1e7, first_ttft_ms=5e10)
    )
    (found,) = status(pod)["lastStartups"]
    assert found.keys() == {"pod", "revision", "cause", "warmTime"}


def test_the_newest_five() -> None:
    pods = [engine(f"p{n}").warm().timeline(gate=GATE + n) for n in range(7)]
    found = status(*pods, replicas=7)["lastStartups"]
    assert [startup["pod"] for startup in found] == ["p6", "p5", "p4", "p3", "p2"]
