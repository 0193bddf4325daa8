"""Reads the facts of a pod's start from the pod as the API server sends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from warmpod.resources.names import ENGINE_CONTAINER, WARMUP_CONTAINER, WEIGHTS_CONTAINER
from warmpod.startup.pod import PodFacts
from warmpod.startup.record import Span


def facts_of(pod: Mapping[str, Any]) -> PodFacts:
    status = pod.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or []}
    containers = dict(_first_runs(status))
    return PodFacts(
        created=seconds(pod["metadata"].get("creationTimestamp")),
        scheduled=_since(conditions.get("PodScheduled")),
        # Kubelets before 1.36 set it only when they look at the pod again, maybe after the pulls.
        sandbox=_since(conditions.get("PodReadyToStartContainers")),
        sidecar=_started(containers.get(WARMUP_CONTAINER)),
        filled=_whole_run(containers.get(WEIGHTS_CONTAINER)),
        engine=_started(containers.get(ENGINE_CONTAINER)),
        engine_restarted=_restarted(status, ENGINE_CONTAINER),
    )


def seconds(text: object) -> float | None:
    """Unix seconds of a time as Kubernetes writes it."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _since(condition: Mapping[str, Any] | None) -> float | None:
    if condition is None or condition.get("status") != "True":
        return None
    return seconds(condition.get("lastTransitionTime"))


def _first_runs(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The states of the containers that have not been restarted: of the others the API keeps the
    last run, and the first is what the pod's start waited for."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or []:
            if not container.get("restartCount"):
                yield container["name"], container.get("state") or {}


def _restarted(status: Mapping[str, Any], name: str) -> bool:
    found = (c for c in status.get("containerStatuses") or [] if c["name"] == name)
    return any(container.get("restartCount") for container in found)


def _started(state: Mapping[str, Any] | None) -> float | None:
    state = state or {}
    run = state.get("running") or state.get("terminated") or {}
    return seconds(run.get("startedAt"))


def _whole_run(state: Mapping[str, Any] | None) -> Span | None:
    ended = (state or {}).get("terminated") or {}
    start, end = seconds(ended.get("startedAt")), seconds(ended.get("finishedAt"))
    return None if start is None or end is None else Span(start, max(start, end), "")
