"""`warmpod-agent fill`: the init step of medium PodMemory."""

from __future__ import annotations

import logging
from pathlib import Path

from warmpod.agent.config import AgentConfig
from warmpod.agent.filling import NoRoom, fill, is_filled
from warmpod.agent.memory import gib
from warmpod.weights.findings import summary
from warmpod.weights.hashing import unwatched
from warmpod.weights.verify import expectations

log = logging.getLogger(__name__)

# The kubelet copies this file into the container's status (terminationMessagePath's default).
TERMINATION_LOG = Path("/dev/termination-log")


def run(config: AgentConfig, termination_log: Path = TERMINATION_LOG) -> int:
    """Exit code. On failure the last line says which file is wrong and what helps."""
    problem = _fill(config)
    if problem is None:
        return 0
    log.error("%s", problem)
    if termination_log.exists():
        termination_log.write_text(problem)
    return 1


def _fill(config: AgentConfig) -> str | None:
    expected = expectations(config.source)
    if expected.findings:
        return f"{expected.findings[0].reason}: {summary(expected.findings)}"
    try:
        if not is_filled(config.target, expected):
            log.info("copying %d files, %s", len(expected.files), gib(expected.size))
            findings = fill(config.source, config.target, expected, unwatched)
            if findings:
                return f"{findings[0].reason}: {summary(findings)}"
    except NoRoom as error:
        return f"MemoryTooSmall: {error}"
    except OSError as error:
        return f"WeightsNotReadable: {error}"
    log.info("%d files, %s, verified in %s", len(expected.files), gib(expected.size), config.target)
    return None
