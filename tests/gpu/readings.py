"""Reads starts: from the sidecar's timeline, or from the log of an engine that has none; and the
GPU's memory beside them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from support.background import Background
from warmpod.launcher.log.stages import Stage, findings
from warmpod.sidecar.silence import Line, silent_spans
from warmpod.startup import phases, record
from warmpod.startup.record import Record

JsonObject = dict[str, Any]


def gpu_memory_mib() -> int:
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(map(int, listed.split()))


@dataclass
class GpuMemory(Background):
    """Samples how much memory of the GPU is in use. One look costs some tens of milliseconds of one
    core."""

    period_s: float = field(default=1.0, kw_only=True)
    samples: list[tuple[float, int]] = field(default_factory=list)

    def step(self) -> None:
        self.samples.append((time.time(), gpu_memory_mib()))

    def at(self, moment: float) -> int | None:
        """MiB, at the sample next to it (unix seconds)."""
        nearest = min(self.samples, key=lambda sample: abs(sample[0] - moment), default=None)
        return None if nearest is None else nearest[1]


def of_timeline(timeline: JsonObject, memory: GpuMemory) -> JsonObject:
    """One boot as its sidecar told it. `to_answer_s` is from the start of its container, or of the
    boot in a container that ran before, to the engine's first answer; `to_warm_s` to the gate."""
    found = record.of(timeline)
    begin = found.launcher if found.cause == "pod-start" else found.boot_started
    return {
        "to_answer_s": _passed(begin, found.http),
        "to_warm_s": _passed(begin, found.gate),
        "compile": found.compile,
        "compile_why": timeline.get("compileWhy", ""),
        # How it was started, where forks are asked for.
        "engine": timeline.get("start", {}),
        "phases": list(_phases(found)),
        "gpu_memory_mib": {
            "before_warm_up": memory.at(found.http) if found.http else None,
            "warm": memory.at(found.gate) if found.gate else None,
        },
        "timeline": timeline,
    }


def of_log(lines: Iterable[str], started: float) -> JsonObject:
    """A plain engine, by the same reader of its lines, each of which begins with its time.
    `started`: when its container did (unix seconds)."""
    stages = dict(_stages(lines))
    ready = stages["ready"].at if "ready" in stages else None
    found = Record(
        boot_started=started,
        http=ready,
        stages=tuple((name, line.at) for name, line in stages.items()),
        took={name: line.took for name, line in stages.items() if line.took},
        silent=tuple(silent_spans(started, stages.values(), ready, ())),
    )
    return {
        "to_answer_s": _passed(started, ready),
        "compile": "hit" if "aot_hit" in stages else "miss",
        "phases": list(_phases(found)),
    }


def _stages(lines: Iterable[str]) -> Iterator[tuple[str, Line]]:
    """The first line of each stage."""
    seen: set[str] = set()
    for text in lines:
        stamp, _, said = text.partition(" ")
        for finding in findings(said):
            if isinstance(finding, Stage) and finding.name not in seen:
                seen.add(finding.name)
                at = datetime.fromisoformat(stamp).timestamp()
                yield finding.name, Line(at, finding.seconds)


def _phases(found: Record) -> Iterator[JsonObject]:
    for share in phases.shares(phases.build(found)):
        seconds = round(share.seconds, 2)
        yield {"phase": share.name, "seconds": seconds, "silent": share.silent}


def _passed(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, 2)
