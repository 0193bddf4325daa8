"""What becomes an event on a WarmModel, before it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Nodes that a message names.
NAMED = 3


@dataclass(frozen=True)
class Transition:
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def named(nodes: tuple[str, ...]) -> str:
    """The first few by name, the others by number."""
    shown = ", ".join(nodes[:NAMED])
    return shown if len(nodes) <= NAMED else f"{shown} and {len(nodes) - NAMED} more nodes"
