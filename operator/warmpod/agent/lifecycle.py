"""Facts in, verdict out: when the weights of this node count as resident. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from warmpod import reasons
from warmpod.agent.config import Medium
from warmpod.agent.memory import gib
from warmpod.agent.progress import Stage
from warmpod.agent.residency import Measurement
from warmpod.weights.findings import Finding, summary


@dataclass(frozen=True)
class Facts:
    """What one look at the weights found. Sizes in bytes; `done` of `total` in this stage."""

    medium: Medium
    stage: Stage
    total: int = 0
    done: int = 0
    files: int = 0
    has_manifest: bool = True
    findings: tuple[Finding, ...] = ()
    shortage: str | None = None
    measurement: Measurement | None = None
    error: str | None = None


@dataclass(frozen=True)
class Verdict:
    """Readiness, and the condition `warmpod.io/Resident`."""

    ready: bool
    reason: str
    message: str


def decide(facts: Facts) -> Verdict:
    if facts.stage is Stage.VERIFYING:
        return Verdict(False, reasons.VERIFYING, f"verified {_progress(facts)}")
    if facts.stage is Stage.LOADING:
        return Verdict(False, reasons.LOADING, f"loaded {_progress(facts)}")
    if facts.findings:
        return Verdict(False, facts.findings[0].reason, summary(facts.findings))
    if facts.shortage is not None:
        return Verdict(False, reasons.MEMORY_TOO_SMALL, facts.shortage)
    if facts.error is not None:
        return Verdict(False, reasons.WEIGHTS_NOT_READABLE, facts.error)
    if facts.medium is Medium.POD_MEMORY:
        return Verdict(True, reasons.VERIFIED, _described(facts))
    return _judge_residency(facts)


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
            f"{gib(missing)} of {gib(measurement.total)} were dropped from memory; reading them "
            "again",
        )
    held = "locked in memory" if measurement.locked else "in memory, not locked (no CAP_IPC_LOCK)"
    return Verdict(True, reasons.RESIDENT, f"{_described(facts)}, {held}")


def _described(facts: Facts) -> str:
    known = "verified" if facts.has_manifest else "read (NoManifest: nothing to compare with)"
    return f"{facts.files} files, {gib(facts.total)}, {known}"


def _progress(facts: Facts) -> str:
    """In steps of ten percent: each change of a message is a write to the API server."""
    if not facts.total:
        return "nothing yet"
    tenths = 10 * facts.done // facts.total
    return f"{tenths * 10} % of {gib(facts.total)}"
