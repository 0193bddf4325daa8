"""What can be wrong with a model directory, in words a condition can carry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warmpod.reasons import Reason


@dataclass(frozen=True, order=True)
class Finding:
    """One file that is not as it must be. `path` is relative to the model directory."""

    path: str
    reason: Reason
    detail: str

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


class WeightsError(Exception):
    """A model directory, manifest or image layout cannot be used; the message names the file."""


def summary(findings: Iterable[Finding], limit: int = 3) -> str:
    """The first findings in one line, bounded because it ends up in a condition message."""
    ordered = sorted(findings)
    shown = "; ".join(str(finding) for finding in ordered[:limit])
    hidden = len(ordered) - limit
    return f"{shown}; and {hidden} more" if hidden > 0 else shown
