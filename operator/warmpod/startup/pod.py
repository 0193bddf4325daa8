"""What Kubernetes knows of a pod's start.

The API has these times in whole seconds, cut off: a phase between two of them may be wrong by up to
one second either way, and so is the one between the last of them and the launcher's own clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warmpod.startup.record import Span

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
