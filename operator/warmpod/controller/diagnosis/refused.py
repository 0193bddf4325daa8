"""What was refused: an object that is to be written, or pods that a controller is to create."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from warmpod.reasons import Reason


@dataclass(frozen=True)
class Failure:
    """An object that could not be written."""

    reason: Reason
    object: str
    """`Service models/llama`: kind, namespace and name."""
    message: str


@dataclass(frozen=True)
class Refusal:
    """Pods that a controller was not allowed to create."""

    workload: str
    """`DaemonSet llama-prefetch`."""
    message: str
    since: datetime | None
