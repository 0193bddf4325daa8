"""The start-ups of a WarmModel as its pods and its status tell them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from warmpod.cli.cluster import Document
from warmpod.protocol import TIMELINE_CONDITION
from warmpod.startup import phases, pod_reader, record
from warmpod.startup.names import PHASES, known
from warmpod.startup.phases import Kind, Phase, Share, Startup
from warmpod.startup.pod import in_pod
from warmpod.startup.record import LONGEST_WHY, Record, number, text

# Of the phases that bounded the whole.
MOST_CAUSES = 3

KUBERNETES = ("schedule", "sandbox", "sandbox-and-images", "images", "engine-image")


@dataclass(frozen=True)
class Shown:
    """One start-up and what is said below it."""

    pod: str
    boot: str
    cause: str
    startup: Startup
    remarks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.pod}  boot {self.boot} ({self.cause}), {self.startup.seconds:.1f} s"


def startups(warm_model: Document, pods: Iterable[Document]) -> list[Shown]:
    """The pods' own timelines, which know every stage, then what only the status remembers."""
    found = [shown for pod in pods if (shown := from_pod(pod)) is not None]
    known_boots = {(shown.pod, shown.boot) for shown in found}
    for item in (warm_model.get("status") or {}).get("lastStartups") or []:
        shown = from_status(item)
        if (shown.pod, shown.boot) not in known_boots:
            found.append(shown)
    return found


def from_pod(pod: Document) -> Shown | None:
    """None for a pod that has not reported a start-up."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == TIMELINE_CONDITION:
            found = record.read(condition.get("message") or "")
            return _of_record(pod, found) if found is not None else None
    return None


def from_status(item: Document) -> Shown:
    """An entry of `.status.lastStartups`. It has only lengths: the phases are laid end to end."""
    at, laid = 0.0, []
    for name, seconds, kind in _lengths(item):
        laid.append(Phase(name, at, at + seconds, kind))
        at += seconds
    startup = Startup(0.0, tuple(laid))
    found = Record(
        rounds=number(item.get("rounds")),
        first_ttft_ms=number(item.get("firstTokenMilliseconds")),
        steady_ttft_ms=number(item.get("steadyTokenMilliseconds")),
        compile=text(item.get("compile")),
        compile_why=text(item.get("compileWhy"), LONGEST_WHY),
    )
    return Shown(
        str(item.get("pod", "")),
        str(item.get("boot") or ""),
        str(item.get("cause") or ""),
        startup,
        tuple(_remarks(found, startup, _told(item, "loader"), _told(item, "engineStart"))),
    )


def _of_record(pod: Document, found: Record) -> Shown:
    facts = pod_reader.facts_of(pod)
    found = in_pod(found, facts)
    startup = phases.build(found, facts)
    return Shown(
        str(pod["metadata"]["name"]),
        found.boot,
        found.cause,
        startup,
        tuple(_remarks(found, startup, str(found.loader or ""), str(found.start or ""))),
    )


def _lengths(item: Document) -> Iterator[tuple[str, float, Kind]]:
    if item.get("phases"):
        for phase in item["phases"]:
            kind: Kind = "kubernetes" if phase["name"] in KUBERNETES else "logged"
            yield (
                phase["name"],
                phase["milliseconds"] / 1000,
                "silent" if phase.get("silent") else kind,
            )
        return
    # Written by an operator that did not know phases. What the parts leave of the whole was spent
    # before the engine's container ran.
    parts: list[tuple[str, Any]] = [
        ("wait-for-weights", item.get("weightsSeconds")),
        ("start-engine", item.get("engineSeconds")),
        ("rounds", item.get("warmupSeconds")),
    ]
    rest = (item.get("startSeconds") or 0) - sum(seconds or 0 for _, seconds in parts)
    if item.get("cause") == "pod-start" and rest > 0:
        yield "sandbox-and-images", rest, "kubernetes"
    for name, seconds in parts:
        if seconds:
            yield name, seconds, "logged"


def _told(item: Document, field: str) -> str:
    return str(item.get(field) or "")


def _remarks(found: Record, startup: Startup, loader: str, start: str) -> Iterator[str]:
    yield from _bounds(startup)
    if found.rounds is not None:
        buckets = f" of {found.buckets:.0f} buckets" if found.buckets else ""
        yield f"{found.rounds:.0f} rounds{buckets}"
    if found.first_ttft_ms is not None and found.steady_ttft_ms is not None:
        yield (
            f"first token {found.first_ttft_ms:.0f} ms at first, "
            f"{found.steady_ttft_ms:.0f} ms when warm"
        )
    for bucket in found.worst:
        yield f"{bucket.name}: {bucket.first:.0f} ms at first, {bucket.steady:.0f} ms when warm"
    if found.compile in ("hit", "miss"):
        why = f" ({found.compile_why})" if found.compile_why else ""
        yield f"compile cache: {found.compile}{why}"
    if loader:
        yield f"loader of the weights: {loader}"
    if start:
        yield f"engine start: {start}"
    if found.restarts:
        yield f"{found.restarts:.0f} boots before it failed to become warm"
    if found.compare is not None:
        yield (
            f"compared with other settings: {found.compare.differing:.0f} of "
            f"{found.compare.samples:.0f} answers differ, logprobs by at most "
            f"{found.compare.largest:g}"
        )


def _bounds(startup: Startup) -> Iterator[str]:
    """What a shorter start-up has to begin with."""
    if not startup.seconds:
        return
    shares = sorted(phases.shares(startup), key=lambda share: -share.seconds)
    told = [f"{_word(share)} {share.seconds / startup.seconds:.0%}" for share in shares]
    yield f"bounded by: {', '.join(told[:MOST_CAUSES])}"
    if any(phase.kind == "kubernetes" for phase in startup.phases):
        yield "times of Kubernetes are whole seconds"


def _word(share: Share) -> str:
    label = PHASES[known(share.name)].label
    return f"{label} (not logged)" if share.silent else label
