"""What the builders must know about the installation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    operator_image: str
    """Holds agent, sidecar and launcher. A revision keeps the one it was rendered with."""
