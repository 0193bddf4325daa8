"""A record and a pod's facts become phases that make up the whole."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from warmpod.startup import phases, record
from warmpod.startup.names import CAUSES, OF_STAGE, PHASES
from warmpod.startup.phases import LONGEST_SECONDS, Startup
from warmpod.startup.pod import PodFacts
from warmpod.startup.record import Record, Span

ZERO = 1_800_000_000.0

RECORD: dict[str, Any] = {
    "cause": "pod-start",
    "launcher": 14.4,
    "boot_started": 16.0,
    "stages": {"version": 26.0, "load_start": 28.0, "weights": 40.0, "graphs": 50.0},
    "took": {"weights": 11.5, "graphs": 10.0},
    "silent": [[16.0, 26.0, "import"]],
    "http": 51.0,
    "first_token": 53.0,
    "gate": 60.0,
}
FACTS = {"created": 0.0, "scheduled": 1.0, "sandbox": 3.0, "sidecar": 8.0, "engine": 14.0}

Row = tuple[str, float, float]


def at(seconds: float) -> float:
    return ZERO + seconds


def moved(value: Any) -> Any:
    """Times of the tests are seconds from zero."""
    if isinstance(value, dict):
        return {name: moved(each) for name, each in value.items()}
    if isinstance(value, list):
        return [moved(each) for each in value]
    is_time = isinstance(value, float) and not isinstance(value, bool)
    return at(value) if is_time else value


def build(facts: dict[str, Any] | None = None, **changed: Any) -> Startup:
    content = {name: value for name, value in (RECORD | changed).items() if value is not None}
    took = content.pop("took", {})
    whole = {**moved(content), "took": took}
    known = {name: value for name, value in (FACTS | (facts or {})).items() if value is not None}
    times = {
        name: Span(*map(at, v), "") if isinstance(v, tuple) else at(v) for name, v in known.items()
    }
    return phases.build(record.of(whole), PodFacts(**times))


def rows(startup: Startup, kind: str = "") -> list[Row]:
    return [
        (phase.name, round(phase.start - ZERO, 2), round(phase.end - ZERO, 2))
        for phase in startup.phases
        if kind in ("", phase.kind)
    ]


def test_the_whole_way_from_the_creation_of_the_pod() -> None:
    startup = build()
    assert rows(startup) == [
        ("schedule", 0, 1),
        ("sandbox", 1, 3),
        ("images", 3, 8),
        ("engine-image", 8, 14),
        ("start-container", 14, 14.4),
        ("wait-for-weights", 14.4, 16),
        ("import", 16, 26),
        ("prepare-workers", 26, 28),
        ("load-weights", 28, 40),
        ("graphs", 40, 50),
        ("start-http", 50, 51),
        ("first-token", 51, 53),
        ("rounds", 53, 60),
    ]
    assert startup.seconds == pytest.approx(60)
    assert rows(startup, "silent") == [("import", 16, 26)]
    assert [name for name, _, _ in rows(startup, "kubernetes")] == [
        "schedule",
        "sandbox",
        "images",
        "engine-image",
        "start-container",
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(
            {"sandbox": 8.0},
            ["schedule", "sandbox-and-images", "engine-image", "start-container"],
            id="a sandbox that was noticed after the pulls tells nothing of when they began",
        ),
        pytest.param(
            {"filled": (9.0, 12.0)},
            ["schedule", "sandbox", "images", "fill-weights", "engine-image", "start-container"],
            id="an init container fills the pod's memory",
        ),
        pytest.param(
            {"sidecar": None},
            ["schedule", "sandbox", "images", "start-container"],
            id="a sidecar that was restarted",
        ),
        pytest.param(
            {"engine": 300.0, "sidecar": 301.0},
            ["schedule", "sandbox-and-images"],
            id="containers of a later run",
        ),
        pytest.param(
            {"scheduled": None, "sandbox": None, "sidecar": None, "engine": None},
            ["sandbox-and-images"],
            id="nothing but the creation",
        ),
        pytest.param({"created": None}, [], id="not even the creation"),
        pytest.param({"created": 20.0}, [], id="the API server's clock is ahead"),
        pytest.param({"created": -2 * LONGEST_SECONDS}, [], id="the node's clock is years away"),
    ],
)
def test_what_kubernetes_tells(facts: dict[str, Any], expected: list[str]) -> None:
    startup = build(facts)
    assert [name for name, _, _ in rows(startup, "kubernetes")] == expected
    assert_whole(startup)
    assert rows(startup)[-1] == ("rounds", 53, 60)


def assert_whole(startup: Startup) -> None:
    """The critical phases lie end to end."""
    end = startup.begin
    for phase in startup.critical:
        assert phase.start == pytest.approx(end, abs=phases.SHORTEST_SECONDS)
        assert phase.end > phase.start
        end = phase.end
    assert startup.end == end
    assert sum(share.seconds for share in phases.shares(startup)) == pytest.approx(
        startup.seconds, abs=0.05
    )


@pytest.mark.parametrize("cause", ["engine-died", "container-restart", "warmup-failed", ""])
def test_a_later_boot_begins_with_itself(cause: str) -> None:
    startup = build(cause=cause)
    assert rows(startup)[0] == ("import", 16, 26)
    assert startup.seconds == pytest.approx(44)


def test_a_gap_without_a_line_is_silent_and_keeps_its_name() -> None:
    startup = build(silent=[[28.0, 34.0, "not logged by the engine"]], took={"weights": 6.0})
    assert rows(startup, "silent") == [("import", 16, 26), ("load-weights", 28, 34)]
    assert ("load-weights", 34, 40) in rows(startup, "logged")


def test_compilers_in_a_gap_are_what_it_went_into() -> None:
    startup = build(silent=[[29.0, 38.0, "compilers: ninja, nvcc"]], took={})
    assert ("compilers", 29, 38) in rows(startup, "silent")
    assert [phase.label for phase in startup.phases if phase.name == "compilers"] == [
        "run compilers (ninja, nvcc)"
    ]
    assert_whole(startup)


def test_compilers_beside_a_stage_that_the_engine_accounts_for_did_not_bound_it() -> None:
    startup = build(silent=[[29.0, 38.0, "compilers: nvcc"]])
    (compilers,) = [phase for phase in startup.phases if phase.name == "compilers"]
    assert not compilers.critical
    assert ("load-weights", 28, 40) in rows(startup)
    assert_whole(startup)


def test_a_stage_that_took_longer_than_its_turn_ran_beside_the_one_before() -> None:
    stages = {"version": 26.0, "weights": 40.0, "compile": 45.0, "engine_ready": 50.0}
    startup = build(stages=stages, took={"weights": 14.0, "compile": 15.0, "engine_ready": 20.0})
    assert [(p.name, p.start - ZERO, p.end - ZERO) for p in startup.phases if not p.critical] == [
        ("compile", 30, 40)
    ]
    assert ("compile", 40, 45) in rows(startup)


def test_the_boot_to_compare_with_is_a_phase_of_its_own() -> None:
    startup = build(reference=15.0, boot_started=25.0)
    assert rows(startup)[5:7] == [("wait-for-weights", 14.4, 15), ("compare", 15, 25)]


def test_an_engine_that_logs_nothing_we_know() -> None:
    startup = build(stages={}, silent=[[16.0, 51.0, "not logged by the engine"]])
    assert ("start-http", 16, 51) in rows(startup, "silent")


def test_stages_of_another_version_are_other_stages() -> None:
    startup = build(stages={"version": 26.0, "teleport": 30.0})
    assert [p.label for p in startup.phases if p.name == "other"] == ["another stage (teleport)"]


def test_a_start_up_that_is_not_over_ends_where_it_is() -> None:
    startup = build(gate=None, first_token=None, http=None)
    assert rows(startup)[-1] == ("graphs", 40, 50)


def test_a_moment_of_another_kind_is_no_row_of_its_own() -> None:
    """Two lines about the configuration, the second of which comes after a long silence."""
    stages = {"version": 26.0, "args": 26.03, "config": 49.0}
    startup = build(stages=stages, silent=[[26.03, 49.0, "not logged by the engine"]])
    found = [phase for phase in startup.phases if phase.name == "configure"]
    assert [(round(p.start - ZERO), round(p.end - ZERO), p.kind) for p in found] == [
        (26, 49, "silent")
    ]


def test_what_was_logged_in_good_part_has_two_rows() -> None:
    stages = {"version": 26.0, "args": 30.0, "config": 49.0}
    startup = build(stages=stages, silent=[[30.0, 49.0, "not logged by the engine"]])
    assert [p.kind for p in startup.phases if p.name == "configure"] == ["logged", "silent"]


def test_shares_add_up_what_has_one_name() -> None:
    startup = build(stages={"version": 26.0, "args": 27.0, "weights": 40.0, "config": 44.0})
    found = {(share.name, share.silent): share.seconds for share in phases.shares(startup)}
    assert found["configure", False] == pytest.approx(5)


def test_groups_are_what_people_think_in() -> None:
    startup = build()
    groups = phases.by_group((share.name, share.seconds) for share in phases.shares(startup))
    assert {name: round(seconds, 1) for name, seconds in groups.items()} == {
        "scheduling": 1.0,
        "images": 13.4,
        "weights": 1.6,
        "engine": 35.0,
        "warm-up": 9.0,
    }


def test_every_stage_has_a_phase() -> None:
    assert set(OF_STAGE.values()) <= set(PHASES)


@pytest.mark.parametrize("message", ["", "{", "[]", "3", "null", "[" * 100_000])
def test_what_is_no_object_is_no_record(message: str) -> None:
    assert record.read(message) is None


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"gate": "soon", "launcher": True, "boot": 7, "stages": [], "silent": {}, "took": 3},
        {"gate": float("nan"), "http": float("inf"), "boot_started": -1, "launcher": 1e300},
        {"stages": {"version": "x", "args": None, "weights": 3}, "silent": [[1], [2, 1, "x"], 4]},
        {"silent": [[1, 2, 3], ["a", 2, "x"]], "worst": [["b", "c", "d"], [1, 2, 3]]},
        {"compare": {"samples": 3}, "worst": {}, "cause": ["x"], "compile": 1},
        {"cause": "pod-start", "gate": 10**400, "reference": 3},
    ],
)
def test_odd_records_are_read_as_far_as_they_make_sense(content: dict[str, Any]) -> None:
    found = record.read(json.dumps(content))
    assert found is not None
    assert_whole(phases.build(found, PodFacts(created=1.0, engine=2.0)))


def test_any_marks_in_any_order_make_up_a_whole() -> None:
    chance = random.Random(7)
    for _ in range(300):
        assert_whole(phases.build(_any_record(chance), _any_facts(chance)))


def _any_record(chance: random.Random) -> Record:
    def time() -> float | None:
        return chance.choice([None, at(chance.uniform(0, 100))])

    stages = chance.sample([*OF_STAGE, "unknown"], chance.randint(0, 20))
    spans = [
        (at(chance.uniform(0, 100)), chance.uniform(0, 30)) for _ in range(chance.randint(0, 9))
    ]
    whats = ["import", "compilers: nvcc", "not logged by the engine"]
    return Record(
        cause=chance.choice(CAUSES),
        launcher=time(),
        reference=time(),
        boot_started=time(),
        http=time(),
        first_token=time(),
        gate=time(),
        stages=tuple((stage, at(chance.uniform(0, 100))) for stage in stages),
        took={stage: chance.uniform(0, 50) for stage in stages if chance.random() < 0.5},
        silent=tuple(Span(start, start + long, chance.choice(whats)) for start, long in spans),
    )


def _any_facts(chance: random.Random) -> PodFacts:
    names = ("created", "scheduled", "sandbox", "sidecar", "engine")
    times = {n: at(chance.uniform(-20, 100)) for n in names if chance.random() < 0.8}
    return PodFacts(**times)
