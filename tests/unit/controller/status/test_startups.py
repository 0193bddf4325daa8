"""The last start-ups: what the status keeps, what is told of them, and how they are counted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

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
from warmpod import reasons
from warmpod.api.status import MAX_PHASES, WarmModelStatus
from warmpod.controller.apiserver.kinds import POD, WARM_MODEL
from warmpod.controller.objects.cache import Cache
from warmpod.controller.status import startups
from warmpod.controller.telling.metrics import Metrics
from warmpod.startup.names import PHASES

GATE = NOW.timestamp()
PREFETCHED = World().store().prefetching(1, prefetch().resident())


def warm(name: str = "llama-0", **timeline: Any) -> PodWrapper:
    return engine(name).warm().timeline(**timeline)


def told(*pods: PodWrapper, previous: Object | None = None) -> list[Object]:
    """`status.lastStartups`, one plan after a status that was `previous`."""
    model = warm_model(status=previous, replicas=9)
    found = replace(PREFETCHED, model=model).deployed(*pods).plan().status
    assert found is not None
    WarmModelStatus.model_validate_json(json.dumps(found))
    last: list[Object] = found["lastStartups"]
    return last


FULL: Object = {
    "boot": "0123456789ab",
    "number": 1,
    "cause": "pod-start",
    "launcher": GATE - 100,
    "boot_started": GATE - 90,
    "stages": {"version": GATE - 70, "ready": GATE - 31},
    "silent": [[GATE - 90, GATE - 70, "import"]],
    "http": GATE - 30,
    "first_token": GATE - 20,
    "rounds": 4,
    "gate": GATE,
    "first_ttft_ms": 840.4,
    "steady_ttft_ms": 21.6,
    "compile": "miss",
}


def test_a_start_up_in_full() -> None:
    pod = warm(**FULL).condition("PodScheduled", "True", since=ago(seconds=118))
    (found,) = told(pod)
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
        "phases": [
            {"name": "schedule", "milliseconds": 2000, "silent": False},
            {"name": "sandbox-and-images", "milliseconds": 18000, "silent": False},
            {"name": "wait-for-weights", "milliseconds": 10000, "silent": False},
            {"name": "import", "milliseconds": 20000, "silent": True},
            {"name": "start-http", "milliseconds": 40000, "silent": False},
            {"name": "first-token", "milliseconds": 10000, "silent": False},
            {"name": "rounds", "milliseconds": 20000, "silent": False},
        ],
    }


def test_the_loader_is_kept_and_told() -> None:
    choice = {"wanted": "Tensorizer", "used": "Auto", "why": "w" * 999}
    (found,) = told(warm(**FULL, loader=choice))
    assert found["loader"].startswith("Auto in place of Tensorizer: www")
    assert "loader: Auto in place of Tensorizer" in startups.event(found).message
    (found,) = told(warm(**FULL))
    assert "loader" not in found


def test_a_miss_of_the_compile_cache_is_kept_and_told() -> None:
    why = "driver changed from 550.1 to 580.2"
    (found,) = told(warm(**FULL, compileWhy=why, cache="miss"))
    assert (found["compileWhy"], found["cache"]) == (why, "miss")
    warmed, missed = startups.events(found)
    assert f"compile cache: miss ({why})" in warmed.message
    assert (missed.type, missed.reason) == ("Normal", reasons.COMPILE_CACHE_MISS)
    assert missed.message == f"pod llama-0 compiled: {why}"


@pytest.mark.parametrize("outcome", ["damaged", "set-aside", "filled"])
def test_an_entry_that_no_pod_starts_with_again_is_told(outcome: str) -> None:
    (found,) = told(warm(**FULL, compileWhy="vllm/a: too short", cache=outcome))
    _, set_aside = startups.events(found)
    assert (set_aside.type, set_aside.reason) == ("Warning", reasons.COMPILE_CACHE_SET_ASIDE)
    assert set_aside.message == "pod llama-0 compiled anew: vllm/a: too short"


def test_a_hit_and_a_start_without_a_store_are_told_by_the_event_of_the_pod_alone() -> None:
    for fields in ({"compile": "hit", "cache": "filled"}, {}):
        (found,) = told(warm(**FULL | fields))
        assert len(list(startups.events(found))) == 1


def test_the_start_of_the_engine_is_kept_and_told() -> None:
    (found,) = told(warm(**FULL, start={"how": "plain", "why": "w" * 999}))
    assert found["engineStart"].startswith("plain: www")
    assert "engine start: plain: www" in next(startups.events(found)).message
    (found,) = told(warm(**FULL, start={"how": "forked", "import_seconds": 15.9}))
    assert found["engineStart"] == "forked"
    (found,) = told(warm(**FULL))
    assert "engineStart" not in found


def test_a_boot_in_place_counts_from_the_boot() -> None:
    (found,) = told(warm(cause="engine-died", boot_started=GATE - 40, gate=GATE))
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
    assert told(warm(**message)) == []


def test_odd_fields_of_a_timeline_are_left_out() -> None:
    (found,) = told(
        warm(gate=GATE, boot=7, cause=["x"], http="x", rounds=None, first_ttft_ms=-5, compile="")
    )
    assert set(found) == {"pod", "revision", "warmTime"}


def test_lengths_beyond_what_the_api_takes_are_left_out() -> None:
    (found,) = told(
        warm(cause="engine-died", boot_started=1.0, gate=GATE, rounds=1e7, first_ttft_ms=5e10)
    )
    assert found.keys() == {"pod", "revision", "cause", "warmTime"}


def test_no_start_up_has_more_phases_than_the_api_takes() -> None:
    assert len(PHASES) <= MAX_PHASES


def test_the_newest_five() -> None:
    found = told(*(warm(f"p{n}", gate=GATE + n) for n in range(7)))
    assert [startup["pod"] for startup in found] == ["p6", "p5", "p4", "p3", "p2"]


def entry(pod: str, minutes: float, **more: Any) -> Object:
    return {"pod": pod, "boot": "b", "warmTime": ago(minutes=minutes), **more}


def test_start_ups_of_pods_that_are_gone_are_remembered() -> None:
    found = told(warm("new", gate=GATE), previous={"lastStartups": [entry("old", 60)]})
    assert [startup["pod"] for startup in found] == ["new", "old"]


def test_the_boots_before_in_the_same_pod_are_remembered() -> None:
    pod = warm("p", boot="second", cause="engine-died", gate=GATE)
    found = told(pod, previous={"lastStartups": [entry("p", 60)]})
    assert [startup["boot"] for startup in found] == ["second", "b"]


def test_five_newer_ones_push_the_oldest_out() -> None:
    previous = {"lastStartups": [entry(f"old{n}", 10 + n) for n in range(5)]}
    found = told(warm("new", gate=GATE), previous=previous)
    assert [startup["pod"] for startup in found] == ["new", "old0", "old1", "old2", "old3"]


def test_what_was_recorded_is_not_computed_again() -> None:
    """The containers of the pod may have been restarted since."""
    recorded = {**entry("p", 1), "boot": "b", "startSeconds": 77}
    (found,) = told(
        warm("p", boot="b", gate=GATE, cause="pod-start"),
        previous={"lastStartups": [recorded]},
    )
    assert found == recorded


def test_a_pod_that_is_not_warm_any_more_keeps_its_start_up() -> None:
    pod = engine("p").not_warm("EngineDied").timeline(boot="b", gate=GATE)
    previous = {"lastStartups": [entry("p", 1)]}
    assert told(pod, previous=previous) == previous["lastStartups"]


def test_a_remembered_start_up_of_the_future_does_not_stay_the_newest_for_ever() -> None:
    assert told(previous={"lastStartups": [entry("p", -24 * 60)]}) == []


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        ([], [entry("p", 1)], ["p"]),
        ([entry("p", 1)], [entry("p", 1)], []),
        ([entry("p", 9)], [entry("q", 1), entry("r", 2), entry("p", 9)], ["r", "q"]),
        ([], [entry("p", 61)], []),
        ([{**entry("p", 9), "boot": "a"}], [entry("p", 1)], ["p"]),
    ],
    ids=["new", "told", "oldest first", "old", "next boot"],
)
def test_news(before: list[Object], after: list[Object], news: list[str]) -> None:
    found = startups.new({"lastStartups": before}, {"lastStartups": after}, NOW)
    assert [startup["pod"] for startup in found] == news


def test_the_event_of_a_warm_pod_says_where_the_time_went() -> None:
    (found,) = told(warm(**FULL))
    event = startups.event(found)
    assert (event.type, event.reason) == ("Normal", "PodWarm")
    assert event.message == (
        "pod llama-0 warm after 120 s: 20 s images, 10 s weights, 60 s engine, 30 s warm-up; "
        "first token 840 ms at first, 22 ms when warm; compile cache: miss"
    )


def test_the_event_of_a_later_boot_says_why_there_was_one() -> None:
    event = startups.event({**entry("p", 1), "rounds": 3, "cause": "engine-died"})
    assert event.message == "pod p warm; cause: engine-died"


def test_a_gate_that_opened_unproven_is_a_warning() -> None:
    event = startups.event({**entry("p", 1), "startSeconds": 9})
    assert (event.type, event.reason) == ("Warning", "OpenedUnproven")
    assert event.message == "pod p takes traffic unproven after 9 s"


def counted(*start_ups: Object) -> dict[str, float]:
    registry = CollectorRegistry()
    metrics = Metrics(registry, Cache())
    for startup in start_ups:
        metrics.startups.observe(startup)
    return {
        f"{sample.name}{tuple(sample.labels.values())}": sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name.startswith("warmpod_startup") and sample.name.endswith(("_sum", "_count"))
    }


def test_histograms_have_phases_and_causes_but_no_pods() -> None:
    (found,) = told(warm(**FULL))
    sums = counted(found)
    assert sums["warmpod_startup_seconds_sum('pod-start',)"] == 120
    assert sums["warmpod_startup_phase_seconds_sum('import',)"] == 20
    assert sums["warmpod_startup_phase_seconds_count('import',)"] == 1
    assert not [name for name in sums if "llama" in name]


def test_what_is_not_known_is_counted_as_other() -> None:
    odd = {"name": "teleport", "milliseconds": 500, "silent": False}
    sums = counted({"cause": "aliens", "startSeconds": 3, "phases": [odd]})
    assert sums["warmpod_startup_seconds_sum('other',)"] == 3
    assert sums["warmpod_startup_phase_seconds_sum('other',)"] == 0.5


def test_what_the_store_of_compiled_code_did_is_counted() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, Cache())
    for number, fields in enumerate(
        [
            {"compile": "hit", "cache": "filled"},
            {"compile": "miss", "cache": "miss"},
            {"compile": "new", "cache": "magic"},
            {"compile": "hit"},
        ]
    ):
        metrics.startups.observe(entry("p", number, **fields))
    assert {
        tuple(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "warmpod_compile_cache_startups_total"
    } == {("filled", "hit"): 1, ("miss", "miss"): 1, ("other", "unknown"): 1}


def test_a_start_up_of_which_little_is_known_is_not_counted() -> None:
    assert counted(entry("p", 1)) == {}


def hit_rates(models: list[Object], pods: list[PodWrapper]) -> dict[str, float]:
    registry, cache = CollectorRegistry(), Cache()
    Metrics(registry, cache)
    for model in models:
        cache.upsert(WARM_MODEL, model)
    for pod in pods:
        cache.upsert(POD, pod.body())
    return {
        sample.labels["cache_type"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "warmpod_cache_hit_rate"
    }


def test_compile_cache_hit_rate_is_of_the_starts_whose_engine_said_it() -> None:
    said = [entry(f"p{n}", n, compile=word) for n, word in enumerate(["hit", "miss", "hit", "hit"])]
    silent = entry("p9", 9, compile="unknown")
    found = hit_rates([warm_model(status={"lastStartups": [*said, silent]})], [])
    assert found == {"compile": 0.75}


def scheduled(name: str, seconds: float) -> PodWrapper:
    found = engine(name).running().on(f"node-{name}")
    return found.condition("PodScheduled", "True", since=ago(seconds=seconds))


def holds(name: str, created: str, **state: Any) -> PodWrapper:
    found = prefetch(f"agent-{name}").running().on(f"node-{name}")
    found = replace(found, created=created)
    return found.container("agent", **state) if state else found


def test_image_hit_rate_is_of_the_pods_whose_node_held_them() -> None:
    """Engine containers and agents of these pods started one minute ago."""
    pods = [
        *(scheduled("a", 30), holds("a", ago(minutes=5))),  # hit
        *(scheduled("b", 90), holds("b", ago(minutes=5))),  # pulled while the pod waited
        *(scheduled("c", 90), holds("c", ago(seconds=5))),  # of a later agent
        scheduled("d", 30),  # of a revision whose agents are gone
        *(
            scheduled("e", 90),
            holds(
                "e",
                ago(minutes=5),
                restartCount=1,
                state={"running": {"startedAt": ago(seconds=5)}},
            ),
        ),
    ]
    assert hit_rates([], pods) == {"image": 0.5}


def test_no_rate_without_a_start() -> None:
    assert hit_rates([warm_model()], [engine()]) == {}
