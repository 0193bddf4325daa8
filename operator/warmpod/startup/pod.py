"""What Kubernetes knows of a pod's start.

The API has these times in whole seconds, cut off: a phase between two of them may be wrong by up to
one second either way, and so is the one between the last of them and the launcher's own clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from warmpod.startup.record import Record, Span

RESOLUTION_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class PodFacts:
    """Unix seconds; None: not known, or not of the container's first run."""

    created: float | None = None
    scheduled: float | None = None
    sandbox: float | None = None
    sidecar: float | None = None
    filled: Span | None = None
    """The init container that copies the weights into the pod's memory."""
    engine: float | None = None
    engine_restarted: bool = False


def in_pod(record: Record, facts: PodFacts) -> Record:
    """The record of a boot, with what its sidecar cannot know: a node that was rebooted has lost
    the files that tell of earlier runs, and then a boot looks like the first one of its pod."""
    if facts.engine_restarted and record.cause == "pod-start":
        return replace(record, cause="container-restart")
    return record
