"""A start-up as phases: what the boot's record and the pod's own facts amount to.

The phases that are `critical` lie end to end, from the beginning to the open gate: a start-up is a
sequence, and each of them made it longer by its whole length. The others ran beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from warmpod.startup.names import OF_STAGE, OTHER, PHASES, SILENT_COMPILERS, SUMS, known
from warmpod.startup.pod import RESOLUTION_SECONDS, PodFacts
from warmpod.startup.record import Record, Span

Kind = Literal["logged", "silent", "kubernetes"]

# A shorter phase is joined to the next one: it would be a row without a bar.
SHORTEST_SECONDS = 0.01
# Of a phase that was logged in part: less than this part of the other is no row of its own.
SAME_SHARE = 0.05
# Engines log lengths in tenths or whole seconds; what overlaps by less may not overlap at all.
SHORTEST_OVERLAP_SECONDS = 0.5
# Clocks that differ by more are no clocks.
LONGEST_SECONDS = 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    """One of `names.PHASES`."""
    start: float
    """Unix seconds, as is `end`."""
    end: float
    kind: Kind = "logged"
    """Who tells of it: a log line (or the sidecar, which measured it), nobody, or Kubernetes."""
    detail: str = ""
    critical: bool = True

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def label(self) -> str:
        label = PHASES[known(self.name)].label
        return f"{label} ({self.detail})" if self.detail else label


@dataclass(frozen=True, slots=True)
class Startup:
    """One boot's way from its cause to the open gate, or to where it is now."""

    begin: float
    phases: tuple[Phase, ...] = ()
    """By their start."""

    @property
    def critical(self) -> tuple[Phase, ...]:
        return tuple(phase for phase in self.phases if phase.critical)

    @property
    def end(self) -> float:
        return max((phase.end for phase in self.critical), default=self.begin)

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Share:
    """All critical phases of one name and kind."""

    name: str
    seconds: float
    silent: bool
    detail: str = ""

    @property
    def label(self) -> str:
        return PHASES[known(self.name)].label


def build(record: Record, facts: PodFacts | None = None) -> Startup:
    """`facts` are of interest for the first boot of a pod only: a later one begins with itself."""
    walk = _Walk(_begin(record, facts))
    if record.cause == "pod-start":
        _walk_pod(walk, record, facts or PodFacts())
    _walk_launcher(walk, record)
    walk.engine_begin = walk.at
    _walk_engine(walk, record)
    walk.until(_before(record.first_token, record.gate), "first-token")
    walk.until(record.gate, "rounds")
    phases = sorted([*_joined(walk.phases), *walk.beside], key=lambda p: (p.start, not p.critical))
    return Startup(walk.begin, tuple(phases))


def shares(startup: Startup) -> list[Share]:
    """What each phase took of the whole, in the order of their first appearance."""
    found: dict[tuple[str, bool], Share] = {}
    for phase in startup.critical:
        key = (phase.name, phase.kind == "silent")
        before = found.get(key, Share(phase.name, 0.0, key[1], phase.detail))
        found[key] = replace(before, seconds=before.seconds + phase.seconds)
    return list(found.values())


def by_group(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds of (phase name, seconds), summed up under what people think in."""
    found: dict[str, float] = {}
    for name, seconds in parts:
        group = PHASES[known(name)].group
        found[group] = found.get(group, 0.0) + seconds
    return found


class _Walk:
    """Lays critical phases end to end; a time not later than the last one is passed over."""

    def __init__(self, begin: float) -> None:
        self.begin = self.at = self.engine_begin = begin
        self.phases: list[Phase] = []
        self.beside: list[Phase] = []

    def until(self, end: float | None, name: str, kind: Kind = "logged", detail: str = "") -> None:
        if end is not None and end - self.at >= SHORTEST_SECONDS:
            self.phases.append(Phase(name, self.at, end, kind, detail))
            self.at = end

    def aside(self, phase: Phase) -> None:
        if phase.seconds >= SHORTEST_OVERLAP_SECONDS:
            self.beside.append(replace(phase, critical=False))


def _begin(record: Record, facts: PodFacts | None) -> float:
    own = [record.boot_started, record.http, record.first_token, record.gate]
    if record.cause == "pod-start":
        own += [record.launcher, record.reference]
    times = [time for time in own if time is not None]
    times += [] if record.boot_started is not None else [at for _, at in record.stages]
    begin = min(times, default=0.0)
    created = facts.created if facts else None
    if record.cause != "pod-start" or created is None:
        return begin
    # The API server's clock may be ahead of the node's, or the node's may never have been set.
    return created if 0 <= begin - created <= LONGEST_SECONDS else begin


def _walk_pod(walk: _Walk, record: Record, facts: PodFacts) -> None:
    launcher = record.launcher
    if launcher is None:
        return
    facts = _of_first_run(facts, launcher + RESOLUTION_SECONDS)
    for time, name in _pod_marks(facts):
        walk.until(min(time, launcher), name, "kubernetes")
    rest = "sandbox-and-images" if facts.engine is None else "start-container"
    walk.until(launcher, rest, "kubernetes")


def _of_first_run(facts: PodFacts, latest: float) -> PodFacts:
    """Without what came after the launcher: it tells of a later run."""

    def kept(time: float | None) -> float | None:
        return time if time is not None and time < latest else None

    filled = facts.filled if facts.filled is not None and facts.filled.end < latest else None
    return PodFacts(
        scheduled=kept(facts.scheduled),
        sandbox=kept(facts.sandbox),
        sidecar=kept(facts.sidecar),
        filled=filled,
        engine=kept(facts.engine),
    )


def _pod_marks(facts: PodFacts) -> Iterator[tuple[float, str]]:
    """(when, what had been done by then), in the order in which a kubelet does it: images of
    volumes come after the sandbox, each container's own image just before the container."""
    if facts.scheduled is not None:
        yield facts.scheduled, "schedule"
    starts = [facts.sidecar, facts.filled.start if facts.filled else None, facts.engine]
    first = min((time for time in starts if time is not None), default=None)
    if first is not None:
        # One that was seen late tells nothing of when the pulls began.
        if facts.sandbox is not None and facts.sandbox < first - RESOLUTION_SECONDS:
            yield facts.sandbox, "sandbox"
            yield first, "images"
        else:
            yield first, "sandbox-and-images"
    if facts.filled is not None:
        yield facts.filled.start, "images"
        yield facts.filled.end, "fill-weights"
    if facts.engine is not None:
        yield facts.engine, "engine-image"


def _walk_launcher(walk: _Walk, record: Record) -> None:
    if record.cause == "pod-start" and record.reference is not None:
        walk.until(_before(record.reference, record.boot_started), "wait-for-weights")
        walk.until(record.boot_started, "compare")
    else:
        walk.until(record.boot_started, "wait-for-weights")


def _walk_engine(walk: _Walk, record: Record) -> None:
    """The engine names what it has done when it has done it."""
    http = _before(record.http, record.gate)
    end = min((time for time in (http, record.gate) if time is not None), default=math.inf)
    stages = sorted((at, stage) for stage, at in record.stages if walk.at <= at <= end)
    for number, (at, stage) in enumerate(stages):
        if number == 0:
            # Whatever the first line says, what came before it were the imports.
            walk.until(at, "import", "silent")
        else:
            _walk_stage(walk, record, stage, at)
    if http is not None:
        _walk_unlogged(walk, http, "start-http", record.silent)
        walk.until(http, "start-http")


def _walk_stage(walk: _Walk, record: Record, stage: str, at: float) -> None:
    name, took = OF_STAGE.get(stage, OTHER), record.took.get(stage)
    detail = stage if name == OTHER else ""
    logged_from = at if took is None else max(walk.at, at - took)
    if took is not None and stage not in SUMS:
        # It took longer than since the stage before: it had begun beside that one.
        walk.aside(Phase(name, max(at - took, walk.engine_begin), walk.at))
    _walk_unlogged(walk, logged_from, name, record.silent, detail)
    for span in _cut(record.silent, logged_from, at):
        if span.what.startswith(SILENT_COMPILERS):
            walk.aside(Phase("compilers", span.start, span.end, "silent", _programs(span)))
    walk.until(at, name, detail=detail)


def _walk_unlogged(
    walk: _Walk, end: float, name: str, silent: Iterable[Span], detail: str = ""
) -> None:
    """Up to `end`, of which no line tells how long it took; the rest of it stays to be walked."""
    for span in _cut(silent, walk.at, end):
        walk.until(span.start, name, detail=detail)
        if span.what.startswith(SILENT_COMPILERS):
            walk.until(span.end, "compilers", "silent", _programs(span))
        else:
            walk.until(span.end, name, "silent", detail)


def _cut(spans: Iterable[Span], start: float, end: float) -> Iterator[Span]:
    """Those within, in order; where two overlap, compilers are what is known better."""
    ordered = sorted(spans, key=lambda s: (s.start, not s.what.startswith(SILENT_COMPILERS)))
    for span in ordered:
        cut = Span(max(span.start, start), min(span.end, end), span.what)
        if cut.start < cut.end:
            yield cut


def _programs(span: Span) -> str:
    return span.what.removeprefix(SILENT_COMPILERS).lstrip(": ")


def _joined(phases: Iterable[Phase]) -> list[Phase]:
    found: list[Phase] = []
    for phase in phases:
        last = found[-1] if found else None
        if last and _belong_together(last, phase):
            longer = max(last, phase, key=lambda each: each.seconds)
            found[-1] = replace(longer, start=last.start, end=phase.end)
        else:
            found.append(phase)
    return found


def _belong_together(one: Phase, next_one: Phase) -> bool:
    """Two of one name are one, unless a good part of it was logged and another was not."""
    if (one.name, one.detail) != (next_one.name, next_one.detail):
        return False
    shorter, longer = sorted((one.seconds, next_one.seconds))
    return one.kind == next_one.kind or shorter < SAME_SHARE * longer


def _before(time: float | None, limit: float | None) -> float | None:
    return time if time is None or limit is None else min(time, limit)
