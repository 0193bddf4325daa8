import io
import json

import pytest
from rich.console import Console

from unit.cli import documents
from warmpod.cli import render, timeline
from warmpod.cli.cluster import Snapshot
from warmpod.cli.timeline import Segment
from warmpod.protocol import TIMELINE_CONDITION


def text(renderable) -> str:
    console = Console(file=io.StringIO(), width=160, highlight=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_status_shows_conditions_nodes_and_pods() -> None:
    snapshot = Snapshot(documents.warm_model(), documents.pods())
    lines = text(render.status(snapshot, documents.NOW)).splitlines()
    shown = [" ".join(line.split()) for line in lines if line]
    assert shown == [
        "WarmModel demo/tiny",
        "Model 127.0.0.1:5000/warmpod/weights-tiny:dev",
        "Digest sha256:aaaa",
        "Revision 0123456789",
        "Pods 1 of 2 ready, 1 warm, 0 standby",
        "Nodes 2 eligible, 2 prefetched, 1 resident",
        "Condition Status Reason Age Message",
        "Ready False WaitingForWarmPods 60s 1 of 2 pods are warm [really]",
        "Failed nodes",
        "Node Reason Message",
        "n2 SizeMismatch model.gguf",
        "Engine pods",
        "Pod Node Revision Role Warm Reason Age Message",
        "tiny-1 n1 0123456789 serving True Warm 1h30m boot abc123",
        "tiny-2 n1 0123456789 serving Unknown 1h30m Running",
        "Nodes",
        "Pod Node Revision Role Resident Reason Age Message",
        "tiny-prefetch-1 n1 0123456789 True Resident 1h30m 5 files",
    ]


def test_status_of_a_model_that_nobody_has_looked_at_yet() -> None:
    model = {"metadata": {"name": "new", "namespace": "demo", "generation": 1}, "spec": {}}
    shown = text(render.status(Snapshot(model, []), documents.NOW))
    assert "Digest     not resolved" in shown
    assert "the operator has not seen the latest spec yet" in shown


def test_timeline_of_a_living_pod() -> None:
    first = timeline.startups(documents.warm_model(), documents.pods())[0]
    assert (first.pod, first.boot, first.cause, first.seconds) == (
        "tiny-1",
        "abc123",
        "pod-start",
        50,
    )
    assert first.segments == (
        Segment("schedule, pull, mount", 0, 4),
        Segment("wait for the weights", 4, 5),
        Segment("import vLLM", 5, 15),
        Segment("load the weights", 15, 25),
        Segment("capture graphs", 25, 40),
        Segment("answer HTTP", 40, 41),
        Segment("first token", 41, 43),
        Segment("warm up", 43, 50),
    )


def test_timeline_as_bars() -> None:
    found = timeline.startups(documents.warm_model(), documents.pods())
    assert text(render.startups(found)) == "\n".join(
        [
            "tiny-1  boot abc123 (pod-start), 50.0 s",
            "  schedule, pull, mount  4.00 s ███",
            "  wait for the weights   1.00 s    █",
            "  import vLLM           10.00 s     ████████",
            "  load the weights      10.00 s             ████████",
            "  capture graphs        15.00 s                     ████████████",
            "  answer HTTP            1.00 s                                 █",
            "  first token            2.00 s                                  █",
            "  warm up                7.00 s                                   ██████",
            "  4 rounds of warm-up",
            "  first token 1840 ms at first, 22 ms when warm",
            "  compile cache: miss",
            "",
            "tiny-0  boot fff (pod-start), 30.0 s",
            "  schedule, pull, mount  3.00 s ████",
            "  wait for the weights   2.00 s     ███",
            "  start the engine      20.00 s        ██████████████████████████",
            "  warm up                5.00 s                                  ███████",
            "  3 rounds of warm-up",
            "  first token 100 ms at first, 20 ms when warm",
            "  compile cache: hit",
        ]
    )


def test_a_later_boot_begins_with_the_boot_not_with_the_pod() -> None:
    message = documents.TIMELINE | {"cause": "engine-died"}
    condition = {"type": TIMELINE_CONDITION, "status": "True", "message": json.dumps(message)}
    found = timeline.from_pod(documents.pod("p", "engine", [condition]))
    assert found is not None
    assert found.segments[0] == Segment("import vLLM", 0, 10)


def test_of_a_later_boot_the_status_remembers_only_the_boot() -> None:
    item = {"cause": "engine-died", "startSeconds": 900, "engineSeconds": 20, "warmupSeconds": 5}
    assert timeline.from_status(item).segments == (
        Segment("start the engine", 0, 20),
        Segment("warm up", 20, 25),
    )


def test_a_start_up_under_way_ends_where_it_is() -> None:
    message = {"boot": "b", "cause": "pod-start", "launcher": documents.ZERO + 4, "gate": None}
    condition = {"type": TIMELINE_CONDITION, "status": "False", "message": json.dumps(message)}
    found = timeline.from_pod(documents.pod("p", "engine", [condition]))
    assert found is not None
    assert found.segments == (Segment("schedule, pull, mount", 0, 4),)


@pytest.mark.parametrize("message", ["", "{", "[]", "{}"])
def test_an_unreadable_timeline_is_no_crash(message: str) -> None:
    condition = {"type": TIMELINE_CONDITION, "status": "False", "message": message}
    found = timeline.startups({}, [documents.pod("p", "engine", [condition])])
    text(render.startups(found))


def test_no_start_up_yet() -> None:
    assert text(render.startups([])) == "No start-up has been reported yet."


@pytest.mark.parametrize(
    ("then", "shown"),
    [
        (None, ""),
        ("2026-01-01T11:29:30Z", "30s"),
        ("2026-01-01T11:31:00Z", "0s"),
        ("2026-01-01T11:00:00Z", "30m"),
        ("2026-01-01T02:15:00Z", "9h15m"),
        ("2025-12-28T11:30:00Z", "4d"),
    ],
)
def test_age(then: str | None, shown: str) -> None:
    assert render.age(then, documents.NOW) == shown
