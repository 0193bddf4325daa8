"""The pace of a revision's engines, and how that of the next one compares with it.

Measured by the warm-up itself, so that both answered the same requests: the time to first token of
each bucket in its best round. What else runs on a machine only ever adds to a latency, so the best
of some rounds tells an engine's own pace. docs/decisions/0021 has the reasons.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from warmpod.controller.objects.views import PodView
from warmpod.protocol import TIMELINE_CONDITION
from warmpod.startup import record

#: Milliseconds that nobody notices; the same as the warm-up's own (sidecar/steady.py).
FLOOR = 15.0
#: Buckets that a message names.
NAMED = 3
#: Labels of a node that tell which accelerators it has, the most exact first.
_HARDWARE = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "node.kubernetes.io/instance-type",
)


@dataclass(frozen=True)
class Baseline:
    pod: str
    hardware: str
    """Empty where nodes do not tell."""
    fastest: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds by bucket; empty where the warm-up measured nothing, or was not judged."""

    def text(self) -> str:
        """For an annotation."""
        content = {"pod": self.pod, "hardware": self.hardware, "fastest": dict(self.fastest)}
        return json.dumps(content, separators=(",", ":"))


@dataclass(frozen=True)
class Comparison:
    """Of the buckets that both revisions have."""

    buckets: int
    percent: int
    """By how much the time to first token is longer, in the median over the buckets."""
    slowest: tuple[tuple[str, float, float], ...]
    """Bucket, milliseconds before and now; those that lost most first."""

    def __str__(self) -> str:
        change = f"{abs(self.percent)} % {'longer' if self.percent > 0 else 'shorter'}"
        named = ", ".join(f"{name} {old:.0f} → {new:.0f} ms" for name, old, new in self.slowest)
        return (
            f"time to first token {change if self.percent else 'as before'} in the median of "
            f"{self.buckets} kinds of requests ({named})"
        )


def read(text: str) -> Baseline | None:
    """None for what nobody of ours wrote."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    return Baseline(
        pod=record.text(content.get("pod"), 253),
        hardware=record.text(content.get("hardware")),
        fastest=record.of(content).fastest,
    )


def hardware(labels: Mapping[str, str]) -> str:
    """What a node's pace depends on most, as its labels tell."""
    return next((labels[name] for name in _HARDWARE if labels.get(name)), "")


def of_pod(pod: PodView, node_hardware: str) -> Baseline | None:
    """Of a warm pod; None while its sidecar has not told it yet, which it does right after it has
    opened the gate."""
    told = pod.conditions.get(TIMELINE_CONDITION)
    found = record.read(told.message) if told else None
    if found is None or found.gate is None:
        return None
    return Baseline(pod.meta.name, node_hardware, found.fastest)


def compare(before: Baseline, now: Baseline) -> Comparison | None:
    """None where there is nothing that can be compared: no bucket in common, other hardware."""
    common = [name for name in before.fastest if name in now.fastest]
    if not common or before.hardware != now.hardware:
        return None
    pairs = [(name, before.fastest[name], now.fastest[name]) for name in common]
    slowest = sorted(pairs, key=lambda pair: pair[1] - pair[2])[:NAMED]
    percent = median(_percent(old, new) for _, old, new in pairs)
    return Comparison(len(pairs), round(percent), tuple(slowest))


def _percent(old: float, new: float) -> float:
    if abs(new - old) <= FLOOR:
        return 0.0
    return (new / max(old, 0.1) - 1) * 100
