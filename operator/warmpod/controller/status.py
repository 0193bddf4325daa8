"""The status of a WarmModel, as the API has it: counts, nodes and the last start-ups."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from warmpod.api.status import (
    MAX_COUNT,
    MAX_FAILED_NODES,
    MAX_LAST_STARTUPS,
    MAX_MILLISECONDS,
    MAX_SECONDS,
)
from warmpod.controller.facts import Facts, is_warm
from warmpod.controller.problems import Area
from warmpod.controller.views import PodView
from warmpod.protocol import TIMELINE_CONDITION
from warmpod.resources.names import REVISION_LABEL, serving_selector

#: Characters of a message per node.
NODE_MESSAGE = 500

_NODE_AREAS = (Area.IMAGES, Area.WEIGHTS)


def build(
    facts: Facts, name: str, generation: int, digest: str | None, conditions: list[dict[str, Any]]
) -> dict[str, Any]:
    status = {
        "observedGeneration": generation,
        "replicas": facts.serving,
        "readyReplicas": facts.ready,
        "warmReplicas": facts.warm,
        "standbyReplicas": 0,
        # Also without a single pod: an autoscaler gives up on a scale that has no selector.
        "selector": serving_selector(name),
        "conditions": conditions,
        "revision": facts.revision,
        "nodes": _nodes(facts),
        "lastStartups": startups(facts.engine_pods),
    }
    if digest is not None:
        status["model"] = {"digest": digest}
    return status


def build_invalid(
    previous: dict[str, Any], name: str, generation: int, conditions: list[dict[str, Any]]
) -> dict[str, Any]:
    """With a spec that cannot be read, the counts stay what they were."""
    return {
        **previous,
        "observedGeneration": generation,
        "selector": serving_selector(name),
        "conditions": conditions,
    }


def _nodes(facts: Facts) -> dict[str, Any]:
    failed: dict[str, dict[str, str]] = {}
    for problem in facts.node_problems:
        if problem.node not in failed and problem.area in _NODE_AREAS:
            failed[problem.node] = {
                "node": problem.node,
                "reason": str(problem.reason),
                "message": problem.message[:NODE_MESSAGE],
            }
    return {
        "eligible": facts.eligible or 0,
        "prefetched": facts.prefetched,
        "resident": facts.resident,
        "failed": [failed[node] for node in sorted(failed)][:MAX_FAILED_NODES],
    }


def startups(pods: Iterable[PodView]) -> list[dict[str, Any]]:
    """The start-ups that ended warm of the pods that exist, newest first."""
    found = sorted(_each(pods), key=lambda s: (s["warmTime"], s["pod"]), reverse=True)
    return found[:MAX_LAST_STARTUPS]


def _each(pods: Iterable[PodView]) -> Iterator[dict[str, Any]]:
    for pod in pods:
        condition = pod.conditions.get(TIMELINE_CONDITION)
        timeline = _read(condition.message) if condition else None
        if timeline is not None and is_warm(pod):
            startup = _startup(pod, timeline)
            if startup is not None:
                yield startup


def _read(message: str) -> dict[str, Any] | None:
    """Written by another process of maybe another version: anything may be in it."""
    try:
        decoded = json.loads(message)
    except ValueError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _startup(pod: PodView, timeline: dict[str, Any]) -> dict[str, Any] | None:
    gate = _number(timeline.get("gate"))
    if gate is None:
        return None
    cause = timeline.get("cause")
    launcher, boot = _number(timeline.get("launcher")), _number(timeline.get("boot_started"))
    http = _number(timeline.get("http"))
    created = pod.meta.created.timestamp() if pod.meta.created else None
    first_of_pod = cause == "pod-start"
    startup = {
        "pod": pod.meta.name,
        "revision": pod.meta.labels.get(REVISION_LABEL),
        "boot": _text(timeline.get("boot")),
        "cause": _text(cause),
        "compile": _text(timeline.get("compile")),
        "warmTime": datetime.fromtimestamp(gate, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "startSeconds": _between(created if first_of_pod else boot, gate),
        "weightsSeconds": _between(launcher, boot) if first_of_pod else None,
        "engineSeconds": _between(boot, http),
        "warmupSeconds": _between(http, gate),
        "rounds": _whole(timeline.get("rounds"), MAX_COUNT),
        "firstTokenMilliseconds": _whole(timeline.get("first_ttft_ms"), MAX_MILLISECONDS),
        "steadyTokenMilliseconds": _whole(timeline.get("steady_ttft_ms"), MAX_MILLISECONDS),
    }
    return {key: value for key, value in startup.items() if value is not None}


def _number(value: object) -> float | None:
    """A finite number that is a time after 1970 or a duration."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e11 else None


def _whole(value: object, most: int) -> int | None:
    """None also beyond the API's bound: one number too large has the whole status refused."""
    number = _number(value)
    return None if number is None or number > most else round(number)


def _between(start: float | None, end: float | None) -> int | None:
    """Clocks of pod and API server differ: by a little, hence not below zero, or, on a node whose
    clock was never set, by years."""
    return None if start is None or end is None else _whole(max(0.0, end - start), MAX_SECONDS)


def _text(value: object) -> str | None:
    return value[:64] if isinstance(value, str) and value else None
