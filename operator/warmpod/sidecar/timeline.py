"""The start-up of one boot, from launcher to gate, as compact JSON for a pod condition.

`docs/labels.md` has the fields; `warmpod.startup` reads them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from warmpod.protocol import WARMUP_FAILED
from warmpod.sidecar.boots import LauncherEvent
from warmpod.sidecar.lifecycle import Evidence
from warmpod.sidecar.silence import Compilers, Line, silent_spans

LONGEST_MESSAGE = 4096
MISS_STAGES = frozenset({"aot_fail", "compile", "compile_nonaot"})

MOST_WORST = 3
# The first buckets of a plan are the most used ones, and the same in the next revision's plan.
MOST_FASTEST = 24
LONGEST_BUCKET_NAME = 100
LONGEST_WHY = 200
# The launcher says so itself where the engine gave a reason.
NOT_TAKEN = "the engine did not take what was there"


class Figures(Protocol):
    """Time to first token of a bucket: its first request, once steady, and at its best. Seconds."""

    @property
    def first(self) -> float: ...

    @property
    def steady(self) -> float: ...

    @property
    def fastest(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Played:
    """What the warm-up played, and what it found."""

    buckets: int = 0
    figures: Mapping[str, Figures] = field(default_factory=dict)
    """By bucket."""
    compare: Mapping[str, float] | None = None
    """`samples`, `differing`, `largest` difference of a logprob."""


class Timeline:
    """Collects marks; all are unix seconds."""

    def __init__(self) -> None:
        self._launcher_starts: list[float] = []
        self._reference: float | None = None
        self._ending = ""
        self._restarts = 0
        self._cause = "pod-start"
        self._boot: LauncherEvent | None = None
        self._cache: LauncherEvent | None = None
        self._forget_boot()

    def note(self, event: LauncherEvent) -> None:
        match event.name:
            case "launcher-started":
                self._launcher_starts.append(event.ts)
                self._reference, self._ending = None, ""
            case "boot-started" if event.fields.get("reference"):
                self._reference = event.ts
            case "boot-started":
                self._begin(event)
            case "boot-ended":
                self._ending = str(event.fields.get("cause", ""))
                self._restarts += self._ending == WARMUP_FAILED
            case "cache" if event.fields.get("key"):  # else there is no store
                self._cache = event
            case _ if self._boot is not None and event.boot == self._boot.boot:
                self._note_of_boot(event)

    def mark(self, name: str, at: float) -> None:
        """The first time counts."""
        self._marks.setdefault(name, round(at, 3))

    def render(self, evidence: Evidence | None, played: Played = Played()) -> str:
        """Raises RuntimeError when no boot has started."""
        boot = self._boot
        if boot is None:
            raise RuntimeError("there is no boot to show a time line of")
        reference = {"reference": self._reference} if self._reference is not None else {}
        content: dict[str, Any] = {
            "boot": boot.boot,
            "number": int(boot.fields["number"]),
            "cause": self._cause,
            "restarts": self._restarts,
            "launcher": self._launcher_starts[-1] if self._launcher_starts else None,
            **reference,
            "boot_started": boot.ts,
            "stages": {name: round(line.at, 3) for name, line in self._stages.items()},
            "took": {name: line.took for name, line in self._stages.items() if line.took},
            "silent": self._silent(boot.ts),
            **self._marks,
            **(_measured(evidence) if evidence else {}),
            **_content(played),
            **self._compiled(boot),
            **({"loader": self._loader} if self._loader else {}),
            **({"start": self._start} if self._start else {}),
        }
        return _bounded(content)

    def _begin(self, event: LauncherEvent) -> None:
        if self._boot is not None and self._cache is not None and self._cache.ts < self._boot.ts:
            self._cache = None  # it was told about a boot before the one that ends here
        if int(event.fields["number"]) > 1:
            self._reference = None
            self._cause = WARMUP_FAILED if self._ending == WARMUP_FAILED else "engine-died"
        else:
            self._cause = "pod-start" if len(self._launcher_starts) <= 1 else "container-restart"
        self._boot = event
        self._forget_boot()

    def _forget_boot(self) -> None:
        self._stages: dict[str, Line] = {}
        self._compilers = Compilers()
        self._marks: dict[str, float] = {}
        self._loader: dict[str, str] = {}
        self._start: dict[str, Any] = {}

    def _note_of_boot(self, event: LauncherEvent) -> None:
        match event.name:
            case "stage":
                line = Line(event.ts, _seconds(event.fields.get("seconds")))
                self._stages.setdefault(str(event.fields["stage"]), line)
            case "loader":
                told = ("wanted", "used", "why")
                self._loader = {n: str(event.fields.get(n))[:LONGEST_WHY] for n in told}
            case "boot-forked":
                seconds = _seconds(event.fields.get("import_seconds"))
                self._start = {"how": "forked", "import_seconds": seconds}
            case "start-plain":
                self._start = {"how": "plain", "why": str(event.fields.get("why"))[:LONGEST_WHY]}
            case "compiler-started" if "gate" not in self._marks:
                self._compilers.started(str(event.fields.get("program")), event.ts)
            case "compiler-ended":
                self._compilers.ended(str(event.fields.get("program")), event.ts)

    def _silent(self, boot_started: float) -> list[list[Any]]:
        http, gate = self._marks.get("http"), self._marks.get("gate")
        end = http if http is not None else gate
        lines = list(self._stages.values())
        last = max([boot_started, *(line.at for line in lines)])
        runs = self._compilers.runs(last if end is None else end)
        spans = silent_spans(boot_started, lines, http, runs)
        return [[round(span.start, 3), round(span.end, 3), span.what] for span in spans]

    def _compiled(self, boot: LauncherEvent) -> dict[str, str]:
        """Whether compiled code was found, as the engine said it; and, where there is a store,
        what came from it (`cache`), and why that was no hit."""
        hit = "hit" if "aot_hit" in self._stages else ""
        found = {"compile": hit or ("miss" if MISS_STAGES & self._stages.keys() else "unknown")}
        told = self._cache
        if told is None or told.boot not in ("", boot.boot):
            return found
        found["cache"] = str(told.fields.get("outcome"))
        if found["compile"] == "miss":
            found["compileWhy"] = str(told.fields.get("why") or NOT_TAKEN)[:LONGEST_WHY]
        return found


def worst(figures: Mapping[str, Figures]) -> list[tuple[str, float, float]]:
    """(bucket, first, steady), in seconds: where a user would have waited longest for a cold
    engine, compared with a warm one."""
    ordered = sorted(figures.items(), key=lambda item: item[1].steady - item[1].first)
    return [(name, each.first, each.steady) for name, each in ordered[:MOST_WORST]]


def _content(played: Played) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if played.buckets:
        content["buckets"] = played.buckets
    if played.figures:
        content["worst"] = [
            [name[:LONGEST_BUCKET_NAME], _milliseconds(first), _milliseconds(steady)]
            for name, first, steady in worst(played.figures)
        ]
        content["fastest"] = {
            name[:LONGEST_BUCKET_NAME]: _milliseconds(each.fastest)
            for name, each in islice(played.figures.items(), MOST_FASTEST)
        }
    if played.compare is not None:
        content["compare"] = dict(played.compare)
    return content


def _measured(evidence: Evidence) -> Mapping[str, Any]:
    return {
        "rounds": evidence.rounds,
        "first_ttft_ms": _milliseconds(evidence.first_token),
        "steady_ttft_ms": _milliseconds(evidence.steady),
    }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _bounded(content: dict[str, Any]) -> str:
    """What explains most is left out last."""
    text = _json(content)
    for name in ("took", "silent", "fastest", "stages", "worst"):
        while len(text) > LONGEST_MESSAGE and content.get(name):
            content[name].popitem() if isinstance(content[name], dict) else content[name].pop()
            text = _json(content)
    return text


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))
