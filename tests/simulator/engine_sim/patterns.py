"""A text that fits a regular expression, for structured outputs."""

from __future__ import annotations

import re
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from engine_sim.words import Draws

# How often a repetition without an upper limit repeats, at most.
REPEATS = 4
_CATEGORIES = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_WORD": "abcdefghijklmnopqrstuvwxyz0123456789_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": "abcdefghijklmnopqrstuvwxyz",
    "CATEGORY_NOT_WORD": " .,;",
    "CATEGORY_NOT_SPACE": "abcdefghijklmnopqrstuvwxyz",
}
_PRINTABLE = "".join(map(chr, range(32, 127)))


def matching(pattern: str, draws: Draws) -> str:
    """A text that fits. Raises ValueError for a pattern that is none, or uses what is not known
    here (look-around, back references)."""
    try:
        return "".join(_made(node, draws) for node in parser.parse(pattern))
    except re.error as broken:
        raise ValueError(f"invalid regular expression: {broken}") from broken


def _made(node: tuple[Any, Any], draws: Draws) -> str:
    name, value = str(node[0]), node[1]
    if name == "LITERAL":
        return chr(value)
    if name in ("ANY", "NOT_LITERAL"):
        return draws.choose([letter for letter in _PRINTABLE if ord(letter) != value])
    if name == "IN":
        return draws.choose(_members(value))
    if name == "BRANCH":
        return _all(draws.choose(value[1]), draws)
    if name == "SUBPATTERN":
        return _all(value[-1], draws)
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        low, high, repeated = value
        times = low + draws.below(min(high, low + REPEATS) - low + 1)
        return "".join(_all(repeated, draws) for _ in range(times))
    if name == "AT":
        return ""
    raise ValueError(f"{name} in a regular expression is not supported")


def _all(nodes: Any, draws: Draws) -> str:
    return "".join(_made(node, draws) for node in nodes)


def _members(items: list[tuple[Any, Any]]) -> list[str]:
    found: set[str] = set()
    negated = False
    for kind, value in items:
        if str(kind) == "NEGATE":
            negated = True
        elif str(kind) == "LITERAL":
            found.add(chr(value))
        elif str(kind) == "RANGE":
            found.update(map(chr, range(value[0], value[1] + 1)))
        else:
            found.update(_CATEGORIES[str(value)])
    return sorted(set(_PRINTABLE) - found if negated else found)
