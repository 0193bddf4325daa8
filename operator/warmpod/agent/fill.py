"""`warmpod-agent fill`: the init step of medium PodMemory."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from warmpod.agent.config import AgentConfig, WeightSet
from warmpod.agent.copies.filling import NoRoom, TargetFull, fill, is_filled
from warmpod.inuse import Use
from warmpod.protocol import RECEIPT_NAME, REMEDY
from warmpod.quantity import human
from warmpod.weights.findings import Finding, summary
from warmpod.weights.hashing import unwatched
from warmpod.weights.verify import Expectations, expectations

log = logging.getLogger(__name__)

# The kubelet copies this file into the container's status (terminationMessagePath's default).
TERMINATION_LOG = Path("/dev/termination-log")
STAGED_PERIOD_SECONDS = 0.5


def run(config: AgentConfig, termination_log: Path = TERMINATION_LOG) -> int:
    """Exit code. On failure the last line says which file is wrong and what helps."""
    for weights in config.sets:
        problem = _bring(weights)
        if problem is not None:
            text = problem if len(config.sets) == 1 else f"{weights.name}: {problem}"
            log.error("%s", text)
            if termination_log.exists():
                termination_log.write_text(text)
            return 1
    return 0


def _bring(weights: WeightSet) -> str | None:
    if weights.remote is None:
        return _fill(weights)
    with closing(Use(weights.source / RECEIPT_NAME, log.warning)) as use:
        return _until_staged(weights.source, use) or _fill(weights)


def _until_staged(source: Path, use: Use) -> str | None:
    """The node's agent stages the files, and says in its pod's condition why it cannot."""
    if not use.complete():
        log.info("waiting until the agent of this node has staged %s", source)
    while not use.complete():
        if use.gone():
            return (
                f"the download was removed before it was complete{REMEDY}the next one is waited for"
            )
        time.sleep(STAGED_PERIOD_SECONDS)
    return None


def _fill(weights: WeightSet) -> str | None:
    expected = expectations(weights.source)
    if expected.findings:
        return _bad(weights, expected, expected.findings)
    try:
        weights.target.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not is_filled(weights.target, expected):
            log.info("copying %d files, %s", len(expected.files), human(expected.size))
            findings = fill(weights.source, weights.target, expected, unwatched)
            if findings:
                return _bad(weights, expected, findings)
    except TargetFull as error:
        remedy = "raise spec.weights.size to the size of all weights"
        return f"MemoryTooSmall: {error} the pod's memory volume{REMEDY}{remedy}"
    except NoRoom as error:
        return f"MemoryTooSmall: {error}"
    except OSError as error:
        words = weights.origin.unreadable(error) if weights.origin is not None else str(error)
        return f"WeightsNotReadable: {words}"
    log.info(
        "%d files, %s, verified in %s", len(expected.files), human(expected.size), weights.target
    )
    return None


def _bad(weights: WeightSet, expected: Expectations, findings: Sequence[Finding]) -> str:
    reason, message = findings[0].reason, summary(findings)
    if weights.origin is not None:
        reason, message = weights.origin.explain(findings, expected.has_manifest)
    return f"{reason}: {message}"
