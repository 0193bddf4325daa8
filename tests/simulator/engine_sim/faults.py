"""The ways in which a simulated engine can be broken: SIM_FAULT. README.md says what each does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

PLAIN = (
    "none",
    "crash-at-start",
    "crash-after-load",
    "crash-on-hit",
    "hang-at-start",
    "oom-in-weights",
    "oom-in-graphs",
    "driver-mismatch",
    "gpu-busy",
    "missing-token",
    "kv-cache-too-small",
    "unsupported-argument",
    "no-token",
    "error-500",
    "no-chat",
    "no-chat-template",
    "empty-content",
    "one-token",
    "wrong-text",
    "wrong-text-after-wake",
    "wake-hangs",
    "wake-fails",
    "memory-not-freed",
    "nan-embeddings",
    "never-converges",
    "falls-for-ever",
    "cache-grows",
    "dies-on-logprobs",
)
COUNTED = ("hang-after", "die-after")
# Counted faults that have a meaning without a count too, here given as the count they then have.
FOR_EVER = 10**9
OPTIONAL = {"late-compile": FOR_EVER, "slow-under-load": 500, "dies-in-round-2": 0}


@dataclass(frozen=True)
class Fault:
    """One fault; `count` is what stands behind `=`, for the faults that have a number."""

    name: str
    count: int = 0

    def hangs(self, number: int) -> bool:
        """Whether request `number` (from 1) never gets an answer."""
        return self.name == "no-token" or (self.name == "hang-after" and number > self.count)

    def kills(self, number: int, repeated: bool, features: Collection[str]) -> bool:
        """Whether the engine process dies on request `number` (from 1).

        `repeated`: another request had the same kernels before, and came at another time."""
        if self.name == "dies-on-logprobs":
            return "logprobs" in features
        if self.name == "dies-in-round-2":
            return repeated and number > self.count
        return self.name == "die-after" and number > self.count


NO_FAULT = Fault("none")


def parse_fault(text: str) -> Fault:
    """Read SIM_FAULT: `no-token`, or with a count, `die-after=3`. Raises ValueError."""
    name, equals, count = text.partition("=")
    if name in PLAIN and not equals:
        return Fault(name)
    if name in OPTIONAL and not equals:
        return Fault(name, OPTIONAL[name])
    if name in (*COUNTED, *OPTIONAL) and count.isdigit():
        return Fault(name, int(count))
    wanted = [*PLAIN, *(f"{counted}=N" for counted in COUNTED)]
    wanted += [f"{optional}[=N]" for optional in OPTIONAL]
    raise ValueError(f"{text!r} is not one of: {', '.join(wanted)}")
