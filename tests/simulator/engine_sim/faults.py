"""The ways in which a simulated engine can be broken."""

from __future__ import annotations

from dataclasses import dataclass

PLAIN = ("none", "crash-at-start", "crash-after-load", "no-token", "error-500", "empty-content")
COUNTED = ("hang-after", "die-after")


@dataclass(frozen=True)
class Fault:
    """One fault; `after` is the number of requests that still work, for the counted ones."""

    name: str
    after: int = 0

    def hangs(self, number: int) -> bool:
        """Whether request `number` (from 1) never gets an answer."""
        return self.name == "no-token" or (self.name == "hang-after" and number > self.after)

    def kills(self, number: int) -> bool:
        """Whether the engine process dies on request `number` (from 1)."""
        return self.name == "die-after" and number > self.after


NO_FAULT = Fault("none")


def parse_fault(text: str) -> Fault:
    """Read SIM_FAULT: `no-token`, or with a count, `die-after=3`."""
    name, equals, count = text.partition("=")
    if name in PLAIN and not equals:
        return Fault(name)
    if name in COUNTED and count.isdigit():
        return Fault(name, int(count))
    wanted = ", ".join([*PLAIN, *(f"{counted}=N" for counted in COUNTED)])
    raise ValueError(f"SIM_FAULT={text!r} is not one of: {wanted}")
