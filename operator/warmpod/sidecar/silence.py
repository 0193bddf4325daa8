"""In which spans of a start-up the engine logs nothing, and what is known of them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from warmpod.startup.names import SILENT_COMPILERS, SILENT_GAP, SILENT_IMPORT
from warmpod.startup.record import Span

# A shorter gap between two lines is the ordinary time between two lines.
GAP_SECONDS = 3.0
# Compilers that follow each other as fast are one run: a build starts hundreds of them.
SAME_RUN_SECONDS = 2.0
# A compiler beside a start-up that takes less is none of its phases.
COMPILERS_SECONDS = 0.5
# Of the message of a condition.
MOST_SPANS = 8
MOST_PROGRAMS = 4
# What is remembered of one boot.
MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a stage, in unix seconds, and how long the stage took if the line tells."""

    at: float
    took: float | None = None


class Compilers:
    """The runs of compilers below one boot, from the launcher's events."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        self._since: float | None = None
        self._programs: set[str] = set()
        self._runs: list[Span] = []

    def started(self, program: str, at: float) -> None:
        if self._since is None:
            self._since, self._programs = at, set()
        self._programs.add(program)
        self._running[program] = self._running.get(program, 0) + 1

    def ended(self, program: str, at: float) -> None:
        left = self._running.get(program, 0) - 1
        self._running[program] = max(0, left)
        if self._since is not None and not any(self._running.values()):
            self._note(Span(self._since, at, _named(self._programs)))
            self._since = None

    def runs(self, now: float) -> list[Span]:
        """Those that still go on end `now`."""
        if self._since is None or now <= self._since:
            return list(self._runs)
        return [*self._runs, Span(self._since, now, _named(self._programs))]

    def _note(self, run: Span) -> None:
        last = self._runs[-1] if self._runs else None
        if last is not None and run.start - last.end <= SAME_RUN_SECONDS:
            programs = {*_programs(last), *_programs(run)}
            self._runs[-1] = Span(last.start, run.end, _named(programs))
        elif len(self._runs) < MOST_RUNS:
            self._runs.append(run)


def silent_spans(
    boot_started: float, lines: Iterable[Line], http: float | None, compilers: Iterable[Span]
) -> list[Span]:
    """The longest, in order. `http`: the first good answer, which ends the engine's start."""
    runs = [run for run in compilers if run.end - run.start >= COMPILERS_SECONDS]
    found = [*runs, *_gaps(boot_started, sorted(lines, key=lambda line: line.at), http, runs)]
    longest = sorted(found, key=lambda span: span.start - span.end)[:MOST_SPANS]
    return sorted(longest, key=lambda span: (span.start, span.end))


def _gaps(
    boot_started: float, lines: Sequence[Line], http: float | None, runs: Sequence[Span]
) -> Iterator[Span]:
    before = boot_started
    for number, line in enumerate(lines):
        if number == 0 and line.at > before:
            yield Span(before, line.at, SILENT_IMPORT)
        else:
            yield from _unlogged(before, line.at - (line.took or 0.0), runs)
        before = max(before, line.at)
    if http is not None:
        yield from _unlogged(before, http, runs)


def _unlogged(start: float, end: float, runs: Sequence[Span]) -> Iterator[Span]:
    """What the compilers leave of a gap, as far as it is long."""
    for run in sorted(runs, key=lambda run: run.start):
        if run.end <= start or run.start >= end:
            continue
        if run.start - start >= GAP_SECONDS:
            yield Span(start, run.start, SILENT_GAP)
        start = max(start, run.end)
    if end - start >= GAP_SECONDS:
        yield Span(start, end, SILENT_GAP)


def _named(programs: Iterable[str]) -> str:
    names = sorted(programs)
    more = ["…"] if len(names) > MOST_PROGRAMS else []
    return f"{SILENT_COMPILERS}: {', '.join([*names[:MOST_PROGRAMS], *more])}"


def _programs(run: Span) -> list[str]:
    return [p for p in run.what.removeprefix(f"{SILENT_COMPILERS}: ").split(", ") if p != "…"]
