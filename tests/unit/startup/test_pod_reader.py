"""What a pod as the API server sends it tells of its start."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from warmpod.startup.pod import PodFacts, in_pod
from warmpod.startup.pod_reader import facts_of, seconds
from warmpod.startup.record import Record, Span

CREATED = 1_900_000_000


def time(after: float) -> str:
    return datetime.fromtimestamp(CREATED + after, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "creationTimestamp": time(0)}, "status": status}


def container(name: str, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "restartCount": restarts, "state": state}


def test_a_pod_that_runs() -> None:
    found = facts_of(
        pod(
            conditions=[
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": time(1)},
                {
                    "type": "PodReadyToStartContainers",
                    "status": "True",
                    "lastTransitionTime": time(2),
                },
            ],
            initContainerStatuses=[
                container("warmup", running={"startedAt": time(5)}),
                container("weights", terminated={"startedAt": time(6), "finishedAt": time(9)}),
            ],
            containerStatuses=[container("engine", running={"startedAt": time(10)})],
        )
    )
    assert found == PodFacts(
        created=CREATED,
        scheduled=CREATED + 1,
        sandbox=CREATED + 2,
        sidecar=CREATED + 5,
        filled=Span(CREATED + 6, CREATED + 9, ""),
        engine=CREATED + 10,
    )


def test_of_restarted_containers_the_first_run_is_forgotten() -> None:
    found = facts_of(
        pod(containerStatuses=[container("engine", restarts=1, running={"startedAt": time(99)})])
    )
    assert found == PodFacts(created=CREATED, engine_restarted=True)


@pytest.mark.parametrize(
    ("restarted", "told", "cause"),
    [
        (False, "pod-start", "pod-start"),
        (True, "pod-start", "container-restart"),
        (True, "engine-died", "engine-died"),
    ],
)
def test_a_restarted_container_does_not_start_its_pod(
    restarted: bool, told: str, cause: str
) -> None:
    assert in_pod(Record(cause=told), PodFacts(engine_restarted=restarted)).cause == cause


def test_conditions_that_do_not_hold_tell_no_time() -> None:
    condition = {"type": "PodScheduled", "status": "False", "lastTransitionTime": time(1)}
    assert facts_of(pod(conditions=[condition])).scheduled is None


@pytest.mark.parametrize(
    "document",
    [{"metadata": {}}, {"metadata": {}, "status": None}, {"metadata": {"creationTimestamp": None}}],
)
def test_a_pod_without_a_status(document: dict[str, Any]) -> None:
    assert facts_of(document) == PodFacts()


@pytest.mark.parametrize("text", [None, "", "yesterday", 3])
def test_what_is_no_time(text: Any) -> None:
    assert seconds(text) is None
