"""The sums that are kept of one WarmModel."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Totals:
    warm_hits: int = 0
    """Times that a pod was needed and a warm one stood ready."""
    sleeping_hits: int = 0
    """Times that one was woken for it."""
    cold_starts: int = 0
    """Times that one had to be started."""
    seconds_saved: float = 0.0
    awake_gpu_seconds: float = 0.0
    """GPUs times seconds of warm pods that did not serve."""
    asleep_gpu_seconds: float = 0.0
    """The same of pods that slept: the device is theirs all the same."""
    cost: float = 0.0
    """Price of these GPU seconds, in whatever currency prices are given."""

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def gpu_seconds(self) -> float:
        return self.awake_gpu_seconds + self.asleep_gpu_seconds
