"""The start-up of one boot, from launcher to gate, as compact JSON for a pod condition."""

import json
from collections.abc import Mapping
from typing import Any

from warmpod.sidecar.boots import LauncherEvent
from warmpod.sidecar.lifecycle import Evidence

LONGEST_MESSAGE = 2048
MISS_STAGES = frozenset({"aot_fail", "compile", "compile_nonaot"})


class Timeline:
    """Collects marks; all are unix seconds."""

    def __init__(self) -> None:
        self._launcher_starts: list[float] = []
        self._boot: LauncherEvent | None = None
        self._stages: dict[str, float] = {}
        self._marks: dict[str, float] = {}

    def note(self, event: LauncherEvent) -> None:
        if event.name == "launcher-started":
            self._launcher_starts.append(event.ts)
        elif event.name == "boot-started":
            self._boot, self._stages, self._marks = event, {}, {}
        elif event.name == "stage" and self._boot is not None and event.boot == self._boot.boot:
            self._stages.setdefault(str(event.fields["stage"]), event.ts)

    def mark(self, name: str, at: float) -> None:
        """The first time counts."""
        self._marks.setdefault(name, round(at, 3))

    def render(self, evidence: Evidence | None) -> str:
        """Raises RuntimeError when no boot has started."""
        boot = self._boot
        if boot is None:
            raise RuntimeError("there is no boot to show a time line of")
        number = int(boot.fields["number"])
        content: dict[str, Any] = {
            "boot": boot.boot,
            "number": number,
            "cause": self._cause(number),
            "launcher": self._launcher_starts[-1] if self._launcher_starts else None,
            "boot_started": boot.ts,
            "stages": {name: round(at, 3) for name, at in self._stages.items()},
            **self._marks,
            **(_measured(evidence) if evidence else {}),
            "compile": self._compile(),
        }
        return _bounded(content)

    def _cause(self, number: int) -> str:
        if number > 1:
            return "engine-died"
        return "pod-start" if len(self._launcher_starts) <= 1 else "container-restart"

    def _compile(self) -> str:
        if "aot_hit" in self._stages:
            return "hit"
        return "miss" if MISS_STAGES & self._stages.keys() else "unknown"


def _measured(evidence: Evidence) -> Mapping[str, Any]:
    return {
        "rounds": evidence.rounds,
        "first_ttft_ms": round(evidence.first_token * 1000, 1),
        "steady_ttft_ms": round(evidence.steady * 1000, 1),
    }


def _bounded(content: dict[str, Any]) -> str:
    text = json.dumps(content, separators=(",", ":"))
    while len(text) > LONGEST_MESSAGE and content["stages"]:
        content["stages"].popitem()
        text = json.dumps(content, separators=(",", ":"))
    return text
