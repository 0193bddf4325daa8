import io

import pytest
from rich.console import Console

from unit.cli import documents
from warmpod.cli import render
from warmpod.cli.cluster import Snapshot


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
        "Pod Node Prefetch Role Resident Reason Age Message",
        "tiny-prefetch-1 n1 01234567 True Resident 1h30m 5 files",
    ]


def test_status_shows_the_pool() -> None:
    model = documents.warm_model()
    model["spec"]["standby"] = {"replicas": 3, "state": "Sleeping"}
    model["status"]["standby"] = {"summary": "12 warm, 1 asleep, 2 cold; saved 14m"}
    asleep = {"type": "warmpod.io/Warm", "status": "False", "reason": "Asleep"}
    held = [
        documents.pod("tiny-0", "engine", [asleep]),
        documents.pod("tiny-5", "engine", []),
    ]
    for pod in held:
        pod["metadata"]["labels"]["warmpod.io/role"] = "standby"
    shown = text(render.status(Snapshot(model, [*held, *documents.pods()]), documents.NOW))
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "Standby 3 asked for (Sleeping): 0 awake, 1 asleep, 1 starting" in lines
    assert "Pool 12 warm, 1 asleep, 2 cold; saved 14m" in lines
    first = lines.index("Engine pods") + 2
    assert [line.split()[0] for line in lines[first : first + 4]] == [
        "tiny-1",
        "tiny-2",
        "tiny-0",
        "tiny-5",
    ]


def test_status_of_a_model_that_nobody_has_looked_at_yet() -> None:
    model = {"metadata": {"name": "new", "namespace": "demo", "generation": 1}, "spec": {}}
    shown = text(render.status(Snapshot(model, []), documents.NOW))
    assert "Digest     not resolved" in shown
    assert "the operator has not seen the latest spec yet" in shown


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


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"profile": "Serverless"},
            "Standby 1 asked for (Sleeping): 0 awake, 0 asleep, 0 starting",
        ),
        ({"profile": "Serverless", "standby": {"replicas": 0}}, ""),
        ({"profile": "of another version"}, ""),
    ],
)
def test_status_shows_the_standby_that_a_profile_asks_for(spec, line) -> None:
    model = documents.warm_model()
    model["spec"] |= spec
    lines = text(render.status(Snapshot(model, []), documents.NOW)).splitlines()
    shown = [" ".join(each.split()) for each in lines if each.startswith("Standby")]
    assert shown == ([line] if line else [])
