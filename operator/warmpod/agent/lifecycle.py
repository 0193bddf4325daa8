"""Facts in, verdict out: when the weights of this node count as resident. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warmpod import reasons
from warmpod.agent.config import Medium
from warmpod.agent.places.weights import Pinned
from warmpod.agent.progress import STEPS, Snapshot, Stage
from warmpod.agent.residency.holder import Measurement
from warmpod.agent.sources.origin import Origin
from warmpod.protocol import REMEDY
from warmpod.quantity import human
from warmpod.weights.findings import Finding, summary

WORK = {
    Stage.STAGING: (reasons.STAGING, "staged"),
    Stage.VERIFYING: (reasons.VERIFYING, "verified"),
    Stage.LOADING: (reasons.LOADING, "loaded"),
}


@dataclass(frozen=True)
class Verdict:
    """Readiness, and the condition `warmpod.io/Resident`."""

    ready: bool
    reason: str
    message: str


@dataclass(frozen=True)
class Facts:
    """What one look at a set of weights found. Sizes in bytes. `problem` is why nothing more
    could be found out; `repairs` is whether the agent puts the findings right by itself."""

    medium: Medium
    progress: Snapshot
    total: int = 0
    files: int = 0
    has_manifest: bool = True
    findings: tuple[Finding, ...] = ()
    repairs: bool = False
    origin: Origin | None = None
    pinned: Pinned | None = None
    problem: Verdict | None = None
    measurement: Measurement | None = None


def decide(facts: Facts) -> Verdict:
    if facts.progress.stage is not Stage.CHECKED:
        reason, done = WORK[facts.progress.stage]
        return Verdict(False, reason, f"{done} {_progress(facts.progress)}")
    if facts.findings:
        return _judge_findings(facts)
    if facts.problem is not None:
        return facts.problem
    if facts.medium is Medium.POD_MEMORY:
        return Verdict(True, reasons.VERIFIED, _described(facts))
    return _judge_residency(facts)


def combine(verdicts: Sequence[tuple[str, Verdict]]) -> Verdict:
    """One verdict for all sets, by name: ready when every one is. Of several that are not, the
    reason is that of one which does not work on it by itself."""
    if len(verdicts) == 1:
        return verdicts[0][1]
    working = {reason for reason, _ in WORK.values()}
    shown = [(name, verdict) for name, verdict in verdicts if not verdict.ready] or verdicts
    shown = sorted(shown, key=lambda item: item[1].reason in working)
    message = "; ".join(f"{name}: {verdict.message}" for name, verdict in shown)
    first = shown[0][1]
    return Verdict(first.ready, first.reason, message)


def _judge_findings(facts: Facts) -> Verdict:
    reason, message = facts.findings[0].reason, summary(facts.findings)
    if facts.repairs:
        return Verdict(False, reason, f"{message}{REMEDY}the agent brings it again by itself")
    if facts.origin is not None:
        reason, message = facts.origin.explain(facts.findings, facts.has_manifest)
    return Verdict(False, reason, message)


def _judge_residency(facts: Facts) -> Verdict:
    measurement = facts.measurement
    if measurement is None or not measurement.trusted:
        return Verdict(
            False,
            reasons.RESIDENCY_NOT_MEASURABLE,
            f"{_described(facts)}; this kernel does not tell a process that does not own the files "
            "which of their pages are in memory (Linux 5.14 or CAP_IPC_LOCK is needed)",
        )
    if not measurement.complete:
        missing = measurement.total - measurement.resident
        return Verdict(
            False,
            reasons.NOT_RESIDENT,
            f"{human(missing)} of {human(measurement.total)} were dropped from memory; "
            "reading them again",
        )
    held = "locked in memory" if measurement.locked else "in memory, not locked (no CAP_IPC_LOCK)"
    return Verdict(True, reasons.RESIDENT, f"{_described(facts)}, {held}")


def _described(facts: Facts) -> str:
    known = "verified" if facts.has_manifest else "read (NoManifest: nothing to compare with)"
    text = f"{facts.files} files, {human(facts.total)}, {known}"
    return f"{text}, {facts.pinned}" if facts.pinned and facts.pinned.moves else text


def _progress(now: Snapshot) -> str:
    """In steps of ten percent: each change of a message is a write to the API server."""
    if not now.total:
        return "nothing yet"
    text = f"{100 * now.step // STEPS} % of {human(now.total)}"
    left = now.seconds_left
    return text if left is None else f"{text} at {human(int(now.rate))}/s, {_duration(left)} left"


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
