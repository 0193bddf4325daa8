"""A start-up as segments on a time axis. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from warmpod.cli.cluster import Document
from warmpod.protocol import TIMELINE_CONDITION

# What the engine had done when it wrote the log line of a stage.
STAGES = {
    "version": "import vLLM",
    "args": "read the arguments",
    "config": "read the model's configuration",
    "engine_start": "start the engine process",
    "dist": "join the ranks",
    "load_start": "build the model",
    "weights": "load the weights",
    "model_loaded": "finish loading",
    "aot_hit": "load compiled code",
    "aot_fail": "try the compile cache",
    "compile": "compile",
    "compile_nonaot": "compile",
    "profile": "profile memory",
    "kv_size": "size the KV cache",
    "jit": "compile kernels",
    "graphs": "capture graphs",
    "engine_ready": "finish the engine",
    "http": "start HTTP",
    "ready": "finish start-up",
}
# A shorter segment is joined to the next one: it would be a row without a bar.
SHORTEST_SECONDS = 0.01


@dataclass(frozen=True)
class Segment:
    """Seconds from the beginning of the start-up."""

    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Startup:
    """One boot's way from its cause to the open gate (or to where it is now)."""

    pod: str
    boot: str
    cause: str
    segments: tuple[Segment, ...]
    remarks: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return self.segments[-1].end if self.segments else 0.0


def startups(warm_model: Document, pods: Iterable[Document]) -> list[Startup]:
    """The pods' own timelines, which know every stage, then what only the status remembers."""
    found = [startup for pod in pods if (startup := from_pod(pod)) is not None]
    known = {(startup.pod, startup.boot) for startup in found}
    for item in warm_model.get("status", {}).get("lastStartups", []):
        startup = from_status(item)
        if (startup.pod, startup.boot) not in known:
            found.append(startup)
    return found


def from_pod(pod: Document) -> Startup | None:
    """None for a pod that has not reported a start-up."""
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == TIMELINE_CONDITION:
            return _from_message(pod, condition.get("message", ""))
    return None


def from_status(item: Document) -> Startup:
    """An entry of `.status.lastStartups`. It has only lengths: what they leave of the whole was
    spent before the engine's container ran. A later boot in the same pod has no such part."""
    lengths = [
        ("wait for the weights", item.get("weightsSeconds")),
        ("start the engine", item.get("engineSeconds")),
        ("warm up", item.get("warmupSeconds")),
    ]
    known = sum(seconds or 0 for _, seconds in lengths)
    whole = item.get("startSeconds") or 0
    rest = max(0.0, whole - known) if item.get("cause") == "pod-start" else 0.0
    segments, at = [], 0.0
    for name, seconds in [("schedule, pull, mount", rest), *lengths]:
        if seconds:
            segments.append(Segment(name, at, at + seconds))
            at += seconds
    first, steady = item.get("firstTokenMilliseconds"), item.get("steadyTokenMilliseconds")
    return Startup(
        item.get("pod", ""),
        item.get("boot") or "",
        item.get("cause") or "",
        tuple(segments),
        tuple(_remarks(item.get("rounds"), first, steady, item.get("compile"))),
    )


def _from_message(pod: Document, message: str) -> Startup | None:
    try:
        document = json.loads(message)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    cause = str(document.get("cause", ""))
    created = _created(pod) if cause == "pod-start" else None
    first, steady = document.get("first_ttft_ms"), document.get("steady_ttft_ms")
    return Startup(
        pod["metadata"]["name"],
        str(document.get("boot", "")),
        cause,
        tuple(_segments(_marks(document, created))),
        tuple(_remarks(document.get("rounds"), first, steady, document.get("compile"))),
    )


def _created(pod: Document) -> float | None:
    text = pod["metadata"].get("creationTimestamp")
    return datetime.fromisoformat(text).timestamp() if text else None


def _marks(document: Document, created: float | None) -> list[tuple[float, str]]:
    """(unix seconds, what had been done by then), in order; the first has no name."""
    marks: list[tuple[float, str]] = []

    def mark(time: Any, name: str) -> None:
        if isinstance(time, int | float) and not isinstance(time, bool):
            marks.append((float(time), name))

    mark(created, "")
    if created is not None:
        mark(document.get("launcher"), "schedule, pull, mount")
        mark(document.get("boot_started"), "wait for the weights")
    else:
        mark(document.get("boot_started"), "")
    stages: Document = document.get("stages") or {}
    for stage, time in stages.items():
        mark(time, STAGES.get(stage, stage))
    mark(document.get("http"), "answer HTTP")
    mark(document.get("first_token"), "first token")
    mark(document.get("gate"), "warm up")
    return sorted(marks, key=lambda item: item[0])


def _segments(marks: list[tuple[float, str]]) -> Iterator[Segment]:
    if not marks:
        return
    zero = at = marks[0][0]
    for time, name in marks[1:]:
        if time - at >= SHORTEST_SECONDS:
            yield Segment(name, at - zero, time - zero)
            at = time


def _remarks(rounds: Any, first: Any, steady: Any, compiled: Any) -> Iterator[str]:
    if rounds is not None:
        yield f"{rounds} rounds of warm-up"
    if first is not None and steady is not None:
        yield f"first token {first:.0f} ms at first, {steady:.0f} ms when warm"
    if compiled in ("hit", "miss"):
        yield f"compile cache: {compiled}"
