"""The record of one boot's start-up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from warmpod.sidecar.boots import LauncherEvent
from warmpod.sidecar.lifecycle import Evidence
from warmpod.sidecar.silence import MOST_SPANS
from warmpod.sidecar.timeline import (
    LONGEST_MESSAGE,
    LONGEST_WHY,
    MOST_FASTEST,
    NOT_TAKEN,
    Played,
    Timeline,
)


@dataclass(frozen=True)
class Figures:
    first: float
    steady: float
    fastest: float = 0.01


def event(name: str, ts: float, boot: str = "a", **fields: Any) -> LauncherEvent:
    return LauncherEvent(ts, boot, name, fields)


def start(**fields: Any) -> list[LauncherEvent]:
    return [event("launcher-started", 1.0, ""), event("boot-started", 2.0, number=1, **fields)]


def timeline(*events: LauncherEvent, begun: bool = True) -> Timeline:
    found = Timeline()
    for each in [*(start() if begun else []), *events]:
        found.note(each)
    return found


def content(found: Timeline, **more: Any) -> dict[str, Any]:
    text = found.render(more.get("evidence"), more.get("played", Played()))
    read: dict[str, Any] = json.loads(text)
    return read


def test_one_boot_from_the_launcher_to_the_gate() -> None:
    found = timeline(
        event("stage", 3.0, stage="weights", seconds=0.5),
        event("stage", 4.0, stage="weights"),
        event("stage", 5.0, "other", stage="compile"),
        event("stage", 6.0, stage="aot_hit"),
    )
    found.mark("http", 7.00049)
    found.mark("gate", 9.0)
    found.mark("gate", 11.0)
    assert content(found, evidence=Evidence(4, 0.0841, 0.022)) == {
        "boot": "a",
        "number": 1,
        "cause": "pod-start",
        "restarts": 0,
        "launcher": 1.0,
        "boot_started": 2.0,
        "stages": {"weights": 3.0, "aot_hit": 6.0},
        "took": {"weights": 0.5},
        "silent": [[2.0, 3.0, "import"], [3.0, 6.0, "not logged by the engine"]],
        "http": 7.0,
        "gate": 9.0,
        "rounds": 4,
        "first_ttft_ms": 84.1,
        "steady_ttft_ms": 22.0,
        "compile": "hit",
    }


def test_the_loader_is_told_with_its_reason() -> None:
    choice = {"wanted": "Tensorizer", "used": "Auto", "why": "x" * 999}
    told = content(timeline(event("loader", 2.0, **choice)))["loader"]
    assert told == choice | {"why": "x" * LONGEST_WHY}
    later = event("boot-started", 9.0, "b", number=2)
    assert "loader" not in content(timeline(event("loader", 2.0, **choice), later))


MISS = event("stage", 4.0, stage="compile")
HIT = event("stage", 4.0, stage="aot_hit")


def compiled(*events: LauncherEvent, before: Sequence[LauncherEvent] = ()) -> dict[str, Any]:
    """What is told of compiled code. `before`: events from before the boot."""
    begun = [event("launcher-started", 1.0, ""), *before, event("boot-started", 2.0, number=1)]
    found = content(timeline(*begun, *events, begun=False))
    return {name: found[name] for name in ("compile", "compileWhy", "cache") if name in found}


def test_a_miss_is_told_with_its_reason() -> None:
    told = {"outcome": "miss", "key": "k", "why": "argument max-model-len changed"}
    wanted = {"compile": "miss", "cache": "miss", "compileWhy": told["why"]}
    assert compiled(event("cache", 3.0, **told), MISS) == wanted
    # The launcher looks into the store before it starts the boot.
    assert compiled(MISS, before=[event("cache", 1.5, "", **told)]) == wanted
    assert compiled(MISS, before=[event("cache", 1.5, **told)]) == wanted


def test_a_reason_is_bounded() -> None:
    told = event("cache", 3.0, outcome="miss", key="k", why="x" * 999)
    assert compiled(told, MISS)["compileWhy"] == "x" * LONGEST_WHY


def test_only_the_engine_says_that_it_was_a_hit() -> None:
    filled = event("cache", 3.0, outcome="filled", key="k", why="")
    assert compiled(filled, HIT) == {"compile": "hit", "cache": "filled"}
    assert compiled(filled) == {"compile": "unknown", "cache": "filled"}
    assert compiled(filled, MISS)["compileWhy"] == NOT_TAKEN
    refused = event("cache", 5.0, outcome="filled", key="k", why="source files have changed")
    assert compiled(filled, MISS, refused)["compileWhy"] == "source files have changed"


def test_without_a_store_there_is_nothing_to_tell_of_it() -> None:
    assert compiled(MISS) == {"compile": "miss"}
    alone = event("cache", 1.5, "", outcome="miss", key="", why="each pod compiles for itself")
    assert compiled(MISS, before=[alone]) == {"compile": "miss"}


def test_what_a_store_did_for_an_earlier_boot_is_not_told_of_a_later_one() -> None:
    later = event("boot-started", 9.0, "b", number=2)
    told = {"outcome": "miss", "key": "k", "why": "nothing is stored yet"}
    before = event("cache", 1.5, "", **told)
    missed = event("stage", 10.0, "b", stage="compile")
    assert compiled(later, missed, before=[before]) == {"compile": "miss"}
    assert compiled(event("cache", 3.0, **told), later, missed) == {"compile": "miss"}
    died = event("cache", 8.0, "", outcome="set-aside", key="k", why="boot a ended")
    assert compiled(died, later, missed, before=[before]) == {
        "compile": "miss",
        "cache": "set-aside",
        "compileWhy": "boot a ended",
    }


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        (
            "boot-forked",
            {"import_seconds": 15.9},
            {"how": "forked", "import_seconds": 15.9},
        ),
        ("start-plain", {"why": "x" * 999}, {"how": "plain", "why": "x" * LONGEST_WHY}),
    ],
)
def test_how_the_engine_was_started_is_told(
    name: str, fields: dict[str, Any], told: dict[str, Any]
) -> None:
    assert content(timeline(event(name, 2.0, **fields)))["start"] == told
    later = event("boot-started", 9.0, "b", number=2)
    assert "start" not in content(timeline(event(name, 2.0, **fields), later))


def test_what_was_played_is_in_it() -> None:
    figures = {f"b{n}": Figures(n / 10, 0.02) for n in (2, 9, 5, 7)}
    compared = {"samples": 8, "differing": 1, "largest": 0.03}
    found = content(timeline(), played=Played(buckets=31, figures=figures, compare=compared))
    assert found["buckets"] == 31
    assert found["worst"] == [["b9", 900.0, 20.0], ["b7", 700.0, 20.0], ["b5", 500.0, 20.0]]
    assert found["compare"] == compared
    assert found["fastest"] == {"b2": 10.0, "b9": 10.0, "b5": 10.0, "b7": 10.0}


def test_only_the_most_used_buckets_are_told_with_their_best() -> None:
    figures = {f"b{n}": Figures(1.0, 0.1) for n in range(3 * MOST_FASTEST)}
    found = content(timeline(), played=Played(buckets=len(figures), figures=figures))
    assert list(found["fastest"]) == [f"b{n}" for n in range(MOST_FASTEST)]


def test_before_any_boot_there_is_nothing_to_show() -> None:
    with pytest.raises(RuntimeError, match="no boot"):
        Timeline().render(None)


@pytest.mark.parametrize(
    ("events", "cause", "restarts"),
    [
        pytest.param(start(), "pod-start", 0, id="first boot"),
        pytest.param(
            [*start(), event("launcher-started", 3.0, ""), event("boot-started", 4.0, number=1)],
            "container-restart",
            0,
            id="second container",
        ),
        pytest.param(
            [
                *start(),
                event("boot-ended", 3.0, cause="exited"),
                event("boot-started", 4.0, number=2),
            ],
            "engine-died",
            0,
            id="died",
        ),
        pytest.param(
            [
                *start(),
                event("boot-ended", 3.0, cause="warmup-failed"),
                event("boot-started", 4.0, number=2),
            ],
            "warmup-failed",
            1,
            id="ended by the sidecar",
        ),
        pytest.param(
            [
                event("launcher-started", 1.0, ""),
                event("boot-started", 1.5, "r", number=0, reference=True),
                event("boot-ended", 1.8, "r", cause="reference-done"),
                event("boot-started", 2.0, number=1),
            ],
            "pod-start",
            0,
            id="after a boot to compare with",
        ),
        pytest.param(
            [event("boot-started", 2.0, number=3)], "engine-died", 0, id="trimmed file of events"
        ),
    ],
)
def test_cause(events: list[LauncherEvent], cause: str, restarts: int) -> None:
    found = content(timeline(*events, begun=False))
    assert (found["cause"], found["restarts"]) == (cause, restarts)


def test_the_boot_to_compare_with_is_a_mark_of_the_boot_that_follows() -> None:
    found = timeline(
        event("launcher-started", 1.0, ""),
        event("boot-started", 1.5, "r", number=0, reference=True),
        event("stage", 1.6, "r", stage="weights"),
        event("boot-started", 2.0, number=1),
        begun=False,
    )
    assert (content(found)["reference"], content(found)["stages"]) == (1.5, {})
    found.note(event("boot-started", 9.0, "b", number=2))
    assert "reference" not in content(found)


def compilers(*runs: tuple[str, float, float]) -> list[LauncherEvent]:
    started = [event("compiler-started", at, program=name) for name, at, _ in runs]
    ended = [event("compiler-ended", at, program=name) for name, _, at in runs]
    return sorted([*started, *ended], key=lambda each: each.ts)


@pytest.mark.parametrize(
    ("events", "silent"),
    [
        pytest.param([], [[2.0, 30.0, "not logged by the engine"]], id="no line at all"),
        pytest.param(
            [event("stage", 12.0, stage="version"), event("stage", 28.0, stage="ready")],
            [[2.0, 12.0, "import"], [12.0, 28.0, "not logged by the engine"]],
            id="a gap",
        ),
        pytest.param(
            [
                event("stage", 12.0, stage="version"),
                event("stage", 28.5, stage="weights", seconds=15.0),
            ],
            [[2.0, 12.0, "import"]],
            id="a line that accounts for the gap",
        ),
        pytest.param(
            [
                event("stage", 12.0, stage="version"),
                *compilers(("ninja", 16.0, 24.0), ("nvcc", 17.0, 20.0), ("nvcc", 21.0, 24.0)),
                event("stage", 28.0, stage="graphs"),
            ],
            [
                [2.0, 12.0, "import"],
                [12.0, 16.0, "not logged by the engine"],
                [16.0, 24.0, "compilers: ninja, nvcc"],
                [24.0, 28.0, "not logged by the engine"],
            ],
            id="compilers in a gap",
        ),
        pytest.param(
            [
                event("stage", 27.9, stage="version"),
                *compilers(("nvcc", 20.0, 21.0), ("cicc", 22.5, 24.0)),
            ],
            [[2.0, 27.9, "import"], [20.0, 24.0, "compilers: cicc, nvcc"]],
            id="compilers that follow each other are one run",
        ),
        pytest.param(
            [
                event("stage", 27.9, stage="version"),
                event("compiler-started", 28.0, program="nvcc"),
            ],
            [[2.0, 27.9, "import"], [28.0, 30.0, "compilers: nvcc"]],
            id="compilers whose end was not seen",
        ),
    ],
)
def test_silent_spans(events: list[LauncherEvent], silent: list[list[Any]]) -> None:
    found = timeline(*events)
    found.mark("http", 30.0)
    assert content(found)["silent"] == silent


def test_compilers_after_the_gate_are_of_no_start_up() -> None:
    found = timeline(event("stage", 4.0, stage="version"))
    found.mark("http", 5.0)
    found.mark("gate", 6.0)
    found.note(event("compiler-started", 7.0, program="nvcc"))
    assert content(found)["silent"] == [[2.0, 4.0, "import"]]


def test_only_the_longest_silent_spans_are_told() -> None:
    runs = [("nvcc", 10.0 * n, 10.0 * n + 1 + n / 100) for n in range(1, 60)]
    found = timeline(*compilers(*runs))
    spans = content(found)["silent"]
    assert len(spans) == MOST_SPANS
    assert spans == sorted(spans)


def test_the_message_is_bounded_and_keeps_what_explains_most() -> None:
    stages = [event("stage", 1e9 + n, stage=f"stage{n}", seconds=n * 1.0) for n in range(500)]
    figures = {"user/" + "é" * 500: Figures(1.0, 0.1)}
    text = timeline(*stages).render(None, Played(buckets=1, figures=figures))
    read = json.loads(text)
    assert len(text) <= LONGEST_MESSAGE
    assert read["worst"]
    assert read["stages"]["stage0"] == 1e9
    assert read["compile"] == "unknown"


@pytest.mark.parametrize("seconds", [None, True, "3", [], float("nan")])
def test_odd_lengths_in_events_raise_nothing(seconds: Any) -> None:
    timeline(event("stage", 3.0, stage="weights", seconds=seconds)).render(None)
