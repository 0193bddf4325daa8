"""Reads the message of the pod condition warmpod.io/StartupTimeline.

It was written by another process of maybe another version, or by whoever may write pod conditions:
anything may be in it, and what makes no sense is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

LONGEST_TEXT = 64
LONGEST_WHY = 160
# Of one list of the message; the sidecar writes far fewer.
MOST_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which the engine logs nothing, in unix seconds."""

    start: float
    end: float
    what: str


@dataclass(frozen=True, slots=True)
class WorstBucket:
    """Time to first token, in milliseconds."""

    name: str
    first: float
    steady: float


@dataclass(frozen=True, slots=True)
class Compared:
    samples: float
    differing: float
    largest: float
    """Largest difference of a logprob."""


@dataclass(frozen=True, slots=True)
class LoaderChoice:
    """How the weights were to be loaded, how they were, and why so."""

    wanted: str
    used: str
    why: str

    def __str__(self) -> str:
        if self.used == self.wanted:
            return self.used
        return f"{self.used} in place of {self.wanted}: {self.why}"


@dataclass(frozen=True, slots=True)
class EngineStart:
    """How the engine was started where forks are asked for, and why it was no fork."""

    how: str
    why: str = ""
    import_seconds: float | None = None
    """What the process had taken to import vLLM from which it was forked."""

    def __str__(self) -> str:
        return f"{self.how}: {self.why}" if self.why else self.how


@dataclass(frozen=True, slots=True)
class Record:
    """All times are unix seconds; None: not known."""

    boot: str = ""
    cause: str = ""
    launcher: float | None = None
    reference: float | None = None
    """Start of a boot with other settings, before the first real one."""
    boot_started: float | None = None
    http: float | None = None
    first_token: float | None = None
    gate: float | None = None
    stages: tuple[tuple[str, float], ...] = ()
    took: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the stage's log line tells."""
    silent: tuple[Span, ...] = ()
    compile: str = ""
    """Whether the engine found compiled code: `hit`, `miss` or `unknown`."""
    compile_why: str = ""
    """Why that was a miss, where it is known."""
    cache: str = ""
    """What a store of compiled code did for the boot; empty where there is none."""
    rounds: float | None = None
    buckets: float | None = None
    restarts: float | None = None
    first_ttft_ms: float | None = None
    steady_ttft_ms: float | None = None
    worst: tuple[WorstBucket, ...] = ()
    fastest: Mapping[str, float] = field(default_factory=dict)
    """Time to first token in the best round, in milliseconds, of the buckets that are most used."""
    compare: Compared | None = None
    loader: LoaderChoice | None = None
    """None where vLLM loads as it does by itself."""
    start: EngineStart | None = None
    """None where forks are not asked for."""


def read(message: str) -> Record | None:
    """None for what is no JSON object."""
    try:
        decoded = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return of(decoded) if isinstance(decoded, dict) else None


def of(content: Mapping[str, Any]) -> Record:
    return Record(
        boot=text(content.get("boot")),
        cause=text(content.get("cause")),
        launcher=number(content.get("launcher")),
        reference=number(content.get("reference")),
        boot_started=number(content.get("boot_started")),
        http=number(content.get("http")),
        first_token=number(content.get("first_token")),
        gate=number(content.get("gate")),
        stages=tuple(_numbers(content.get("stages"))),
        took=dict(_numbers(content.get("took"))),
        silent=tuple(_spans(content.get("silent"))),
        compile=text(content.get("compile")),
        compile_why=text(content.get("compileWhy"), LONGEST_WHY),
        cache=text(content.get("cache")),
        rounds=number(content.get("rounds")),
        buckets=number(content.get("buckets")),
        restarts=number(content.get("restarts")),
        first_ttft_ms=number(content.get("first_ttft_ms")),
        steady_ttft_ms=number(content.get("steady_ttft_ms")),
        worst=tuple(_worst(content.get("worst"))),
        fastest=dict(_numbers(content.get("fastest"))),
        compare=_compared(content.get("compare")),
        loader=_loader(content.get("loader")),
        start=_start(content.get("start")),
    )


def number(value: object) -> float | None:
    """A finite number that is a time after 1970 or a duration."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e11 else None


def text(value: object, longest: int = LONGEST_TEXT) -> str:
    return value[:longest] if isinstance(value, str) else ""


def _numbers(value: object) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, each in islice(value.items(), MOST_ENTRIES):
            if (found := number(each)) is not None:
                yield str(name)[:LONGEST_TEXT], found


def _rows(value: object) -> Iterator[list[Any]]:
    for row in value[:MOST_ENTRIES] if isinstance(value, list) else ():
        if isinstance(row, list) and len(row) == 3:
            yield row


def _spans(value: object) -> Iterator[Span]:
    for row in _rows(value):
        start, end = number(row[0]), number(row[1])
        if start is not None and end is not None and start < end and isinstance(row[2], str):
            yield Span(start, end, row[2][:LONGEST_TEXT])


def _worst(value: object) -> Iterator[WorstBucket]:
    for row in _rows(value):
        first, steady = number(row[1]), number(row[2])
        if first is not None and steady is not None and isinstance(row[0], str):
            yield WorstBucket(row[0][:LONGEST_TEXT], first, steady)


def _compared(value: object) -> Compared | None:
    if not isinstance(value, dict):
        return None
    found = [number(value.get(name)) for name in ("samples", "differing", "largest")]
    known = [each for each in found if each is not None]
    return Compared(*known) if len(known) == len(found) else None


def _loader(value: object) -> LoaderChoice | None:
    if not isinstance(value, dict):
        return None
    wanted, used = text(value.get("wanted")), text(value.get("used"))
    if not wanted or not used:
        return None
    return LoaderChoice(wanted, used, text(value.get("why"), LONGEST_WHY))


def _start(value: object) -> EngineStart | None:
    if not isinstance(value, dict):
        return None
    how = text(value.get("how"))
    why = text(value.get("why"), LONGEST_WHY)
    return EngineStart(how, why, number(value.get("import_seconds"))) if how else None
