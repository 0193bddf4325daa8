"""What the builders must know about the installation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    operator_image: str
    """Holds agent, sidecar and launcher. A revision keeps the one it was rendered with."""
    operator_user: str = ""
    """As the API server calls the operator's service account: it may give orders to sidecars. A
    revision keeps this too. Empty where the operator runs outside of a cluster: then nobody may."""
