"""What a boot runs, and how options are added to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warmpod.commandline import leading


@dataclass(frozen=True)
class Command:
    """What a boot runs."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    reference: bool = False
    loader: str | None = None
    """How the weights are to be loaded; None: as the engine does by itself."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """How it was made, for the event log."""


def with_options(argv: Sequence[str], *options: str) -> list[str]:
    """Before the user's own, which win, and may end with any number of values."""
    at = len(leading(argv))
    return [*argv[:at], *options, *argv[at:]]
