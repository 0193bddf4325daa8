"""Waiting for a WarmModel, also through failures of the API server."""

from __future__ import annotations

from typing import Any, cast

import pytest

from warmpod.cli.cluster import Cluster, ClusterError, Document, Snapshot
from warmpod.cli.waiting import ATTEMPTS, Waiting, message_of

WAITS = {"type": "Ready", "status": "False", "reason": "Waiting", "message": "for pods"}
STALLED = {"type": "Stalled", "status": "True", "reason": "NoNodes", "message": "none fits"}
MOVES = {"type": "Stalled", "status": "False", "reason": "NothingWrong", "message": ""}


class Statuses:
    """A cluster whose WarmModel has one status after another; an error is no answer."""

    def __init__(self, *statuses: Document | ClusterError) -> None:
        self.left = list(statuses)

    def snapshot(self, *_: str) -> Snapshot:
        status = self.left.pop(0)
        if isinstance(status, ClusterError):
            raise status
        return Snapshot({"status": status}, [])


def waited(*statuses: Document | ClusterError) -> tuple[str, list[str]]:
    """Why the WarmModel never gets warm, and what was told meanwhile."""
    told: list[str] = []
    cluster = cast(Cluster, Statuses(*statuses))
    waiting = Waiting(cluster, told.append, sleep=lambda seconds: None)
    return waiting.until("demo", "tiny", "warmReplicas"), told


def test_what_it_waits_for_is_told_once() -> None:
    waits: dict[str, Any] = {"conditions": [WAITS]}
    assert waited({}, waits, waits, {"warmReplicas": 1}) == (
        "",
        ["waiting for the operator", "Waiting: for pods"],
    )


def test_one_that_is_stalled_is_not_waited_for() -> None:
    assert waited({"conditions": [WAITS, STALLED]}) == ("NoNodes: none fits", [])


def test_a_look_that_fails_is_repeated() -> None:
    gone = ClusterError("no answer from the cluster")
    told = waited(*[gone] * (ATTEMPTS - 1), {"warmReplicas": 1})[1]
    assert told == ["no answer from the cluster; looking again"] * (ATTEMPTS - 1)
    with pytest.raises(ClusterError, match="no answer"):
        waited(*[gone] * ATTEMPTS)


def test_the_message_of_a_condition() -> None:
    status = {"conditions": [WAITS, MOVES]}
    assert message_of(status, "Ready", "False") == "Waiting: for pods"
    assert message_of(status, "Stalled", "True") == ""
    assert message_of({}, "Ready", "False") == ""
