"""What the agent knows at one moment, for readiness, reports and metrics alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warmpod.agent.cache.store import StoreState
from warmpod.agent.lifecycle import Facts, Verdict
from warmpod.agent.progress import Stage


@dataclass(frozen=True)
class SetState:
    """One set of weights. `scrub_seconds`: what the last scrub took, None before the first."""

    name: str
    remote: bool
    facts: Facts
    verdict: Verdict
    reloads: int
    repairs: int
    scrub_seconds: float | None

    @property
    def resident_bytes(self) -> int:
        measurement = self.facts.measurement
        return measurement.resident if measurement else 0

    @property
    def staged_bytes(self) -> int | None:
        """None where nothing is downloaded."""
        if not self.remote:
            return None
        now = self.facts.progress
        return now.done if now.stage is Stage.STAGING else self.facts.total

    def document(self) -> dict[str, object]:
        """For people and scripts."""
        facts, now = self.facts, self.facts.progress
        return {
            "name": self.name,
            "stage": now.stage,
            "ready": self.verdict.ready,
            "reason": self.verdict.reason,
            "message": self.verdict.message,
            "files": facts.files,
            "bytes": facts.total,
            "commit": facts.pinned.commit if facts.pinned else None,
            "stageBytes": now.done,
            "bytesPerSecond": round(now.rate),
            "secondsLeft": now.seconds_left,
            "residentBytes": self.resident_bytes,
            "locked": facts.measurement.locked if facts.measurement else False,
            "reloads": self.reloads,
            "repairs": self.repairs,
            "scrubSeconds": self.scrub_seconds,
            "findings": [
                {"path": f.path, "reason": f.reason, "detail": f.detail}
                for f in facts.findings[:100]
            ],
        }


@dataclass(frozen=True)
class AgentState:
    """All sets, and the one verdict that they make."""

    verdict: Verdict
    sets: tuple[SetState, ...]
    cache: StoreState | None = None
    """Of the store of compiled code, where this agent keeps one."""


# Asked from the event loop, so it must not block.
State = Callable[[], AgentState]
