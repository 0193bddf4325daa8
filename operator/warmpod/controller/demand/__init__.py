"""How many pods a WarmModel needs now: serving ones, and warm ones beside them."""

from __future__ import annotations

from dataclasses import dataclass

from warmpod.api import WarmModel


@dataclass(frozen=True)
class Demand:
    serving: int
    """Pods that take traffic."""
    standby: int
    """Warm pods that are held back for the next scale-out."""

    @property
    def pods(self) -> int:
        return self.serving + self.standby


def of(model: WarmModel) -> Demand:
    return Demand(model.spec.replicas, model.spec.standby.replicas)
