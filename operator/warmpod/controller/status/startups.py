"""The last start-ups that ended warm: what the status keeps of them, and what is told of new ones.

A start-up is a fact that nobody can observe again once its pod is gone or has begun the next boot.
So an entry that the status has is kept as it is, until five newer ones have come: the only part of
the status that is remembered and not computed anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from warmpod import reasons
from warmpod.api.status import (
    MAX_COUNT,
    MAX_ENGINE_START,
    MAX_LAST_STARTUPS,
    MAX_LOADER,
    MAX_MILLISECONDS,
    MAX_PHASES,
    MAX_SECONDS,
)
from warmpod.controller.objects.engine_pods import is_warm
from warmpod.controller.objects.meta import time_text
from warmpod.controller.objects.views import PodView, parse_time
from warmpod.controller.telling.transition import Transition
from warmpod.protocol import TIMELINE_CONDITION
from warmpod.resources.names import REVISION_LABEL
from warmpod.startup import phases, record
from warmpod.startup.pod import in_pod
from warmpod.startup.record import Record

Object = dict[str, Any]

#: What the launcher says of an entry of the store that no pod is to start with again; one that a
#: boot was filled with and that its engine did not take is such an entry, too.
SET_ASIDE = ("damaged", "set-aside", "filled")

#: Events live as long in the API server; who was away for longer does not tell old news.
NEWS_AGE = timedelta(hours=1)
#: A later time is that of a node whose clock is wrong; it would stay the newest for ever.
CLOCK_ERROR = timedelta(hours=1)


def last(pods: Iterable[PodView], previous: Object, now: datetime) -> list[Object]:
    """Newest first."""
    known = {key_of(entry): entry for entry in _remembered(previous, now)}
    for entry in _each(pods):
        known.setdefault(key_of(entry), entry)
    newest = sorted(known.values(), key=lambda s: (s["warmTime"], s["pod"]), reverse=True)
    return newest[:MAX_LAST_STARTUPS]


def new(previous: Object, status: Object, now: datetime) -> list[Object]:
    """The start-ups that the status tells for the first time, and that are news. Oldest first."""
    told = {key_of(entry) for entry in previous.get("lastStartups") or []}
    found = [entry for entry in status.get("lastStartups") or [] if key_of(entry) not in told]
    return [entry for entry in reversed(found) if now - _warm_time(entry) <= NEWS_AGE]


def events(startup: Object) -> Iterator[Transition]:
    yield event(startup)
    why = startup.get("compileWhy")
    if why and startup.get("cache") in SET_ASIDE:
        told = f"pod {startup['pod']} compiled anew: {why}"
        yield Transition("Warning", reasons.COMPILE_CACHE_SET_ASIDE, told)
    elif why:
        told = f"pod {startup['pod']} compiled: {why}"
        yield Transition("Normal", reasons.COMPILE_CACHE_MISS, told)


def event(startup: Object) -> Transition:
    proven = "rounds" in startup
    how = "warm" if proven else "takes traffic unproven"
    told = [f"pod {startup['pod']} {how}{_after(startup)}", *_remarks(startup)]
    if proven:
        return Transition("Normal", reasons.POD_WARM, "; ".join(told))
    return Transition("Warning", reasons.OPENED_UNPROVEN, "; ".join(told))


def key_of(startup: Object) -> tuple[str, str]:
    return (str(startup.get("pod", "")), str(startup.get("boot", "")))


def _remembered(previous: Object, now: datetime) -> Iterator[Object]:
    for entry in previous.get("lastStartups") or []:
        if _warm_time(entry) - now <= CLOCK_ERROR:
            yield entry


def _warm_time(startup: Object) -> datetime:
    return parse_time(startup.get("warmTime")) or datetime.fromtimestamp(0, UTC)


def _after(startup: Object) -> str:
    """` after 41 s: 13 s images, 20 s engine, 6 s warm-up`."""
    if "startSeconds" not in startup:
        return ""
    parts = phases.by_group(
        (phase["name"], phase["milliseconds"] / 1000) for phase in startup.get("phases", ())
    )
    words = [f"{seconds:.0f} s {group}" for group, seconds in parts.items() if seconds >= 0.5]
    told = f" after {startup['startSeconds']} s"
    return f"{told}: {', '.join(words)}" if words else told


def _remarks(startup: Object) -> Iterator[str]:
    first = startup.get("firstTokenMilliseconds")
    steady = startup.get("steadyTokenMilliseconds")
    if first is not None and steady is not None:
        yield f"first token {first} ms at first, {steady} ms when warm"
    if startup.get("compile") in ("hit", "miss"):
        why = f" ({startup['compileWhy']})" if startup.get("compileWhy") else ""
        yield f"compile cache: {startup['compile']}{why}"
    if startup.get("loader"):
        yield f"loader: {startup['loader']}"
    if startup.get("engineStart"):
        yield f"engine start: {startup['engineStart']}"
    if startup.get("cause") not in (None, "pod-start"):
        yield f"cause: {startup['cause']}"


def _each(pods: Iterable[PodView]) -> Iterator[Object]:
    for pod in pods:
        condition = pod.conditions.get(TIMELINE_CONDITION)
        found = record.read(condition.message) if condition else None
        if found is not None and found.gate is not None and is_warm(pod):
            yield _entry(pod, in_pod(found, pod.startup), found.gate)


def _entry(pod: PodView, found: Record, gate: float) -> Object:
    first_of_pod = found.cause == "pod-start"
    startup = {
        "pod": pod.meta.name,
        "revision": pod.meta.labels.get(REVISION_LABEL),
        "boot": found.boot or None,
        "cause": found.cause or None,
        "compile": found.compile or None,
        "compileWhy": found.compile_why or None,
        "cache": found.cache or None,
        "warmTime": time_text(datetime.fromtimestamp(gate, UTC)),
        "startSeconds": _between(pod.startup.created if first_of_pod else found.boot_started, gate),
        "weightsSeconds": _between(found.launcher, found.boot_started) if first_of_pod else None,
        "engineSeconds": _between(found.boot_started, found.http),
        "warmupSeconds": _between(found.http, gate),
        "loader": str(found.loader)[:MAX_LOADER] if found.loader else None,
        "engineStart": str(found.start)[:MAX_ENGINE_START] if found.start else None,
        "rounds": _whole(found.rounds, MAX_COUNT),
        "firstTokenMilliseconds": _whole(found.first_ttft_ms, MAX_MILLISECONDS),
        "steadyTokenMilliseconds": _whole(found.steady_ttft_ms, MAX_MILLISECONDS),
        "phases": _phases(pod, found) or None,
    }
    return {key: value for key, value in startup.items() if value is not None}


def _phases(pod: PodView, found: Record) -> list[Object]:
    """Without what ran beside them, so that they add up to the whole. Names are few, but kinds
    double them: more than the API takes is left out, as is all of it when the times are absurd."""
    shares = phases.shares(phases.build(found, pod.startup))
    if any(share.seconds > MAX_SECONDS for share in shares):
        return []
    return [
        {
            "name": share.name,
            "milliseconds": round(share.seconds * 1000),
            "silent": share.silent,
        }
        for share in shares[:MAX_PHASES]
    ]


def _whole(value: float | None, most: int) -> int | None:
    """None also beyond the API's bound: one number too large has the whole status refused."""
    return None if value is None or value > most else round(value)


def _between(start: float | None, end: float | None) -> int | None:
    """Clocks of pod and API server differ: by a little, hence not below zero, or, on a node whose
    clock was never set, by years."""
    return None if start is None or end is None else _whole(max(0.0, end - start), MAX_SECONDS)
