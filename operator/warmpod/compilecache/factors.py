"""What decides whether one engine can use what another one compiled. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from warmpod.compilecache.command import COMMAND

KEY_CHARACTERS = 32
LONGEST_TEXT = 200
MOST_NAMES = 500
MOST_DIFFERENCES = 3
_KEY = re.compile(rf"[0-9a-f]{{{KEY_CHARACTERS}}}")


@dataclass(frozen=True)
class Factors:
    """An empty text stands for what is not known, or does not count here."""

    image: str = ""
    """Digest of the engine's image."""
    model: str = ""
    """Digest of the weights, or what identifies them."""
    gpu: tuple[str, ...] = ()
    """Product names, each once, sorted."""
    driver: str = ""
    """Version of the GPU's driver."""
    cpu: str = ""
    """Hash of the CPU's features; only where there is no GPU."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Parallel sizes above 1, by the name of their option."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Hash of the value, by the name of the option without dashes."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Hash of the value, by the name of the variable."""


def key(factors: Factors) -> str:
    """The name of what such an engine compiles: hexadecimal, KEY_CHARACTERS long."""
    canonical = json.dumps(asdict(factors), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:KEY_CHARACTERS]


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def as_json(factors: Factors) -> dict[str, Any]:
    return asdict(factors)


def parse(content: object) -> Factors:
    """The reverse of `as_json`. Raises ValueError: anybody may have written it."""
    if not isinstance(content, dict) or set(content) != {each.name for each in fields(Factors)}:
        raise ValueError("factors: not an object with the fields of factors and no others")
    gpu = content["gpu"]
    if not isinstance(gpu, list) or len(gpu) > MOST_NAMES:
        raise ValueError("factors.gpu: not a list of names")
    ranks = _names("ranks", content["ranks"])
    if not all(type(size) is int and 1 < size < 2**31 for size in ranks.values()):
        raise ValueError("factors.ranks: not numbers above 1")
    return Factors(
        **{name: _text(name, content[name]) for name in ("image", "model", "driver", "cpu")},
        gpu=tuple(_text("gpu", name) for name in gpu),
        ranks=ranks,
        arguments=_texts("arguments", content["arguments"]),
        environment=_texts("environment", content["environment"]),
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise ValueError(f"factors.{name}: not a line of at most {LONGEST_TEXT} characters")
    return value


def _names(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > MOST_NAMES:
        raise ValueError(f"factors.{name}: not an object of at most {MOST_NAMES} names")
    return {_text(name, each): item for each, item in value.items()}


def _texts(name: str, value: object) -> dict[str, str]:
    return {each: _text(name, item) for each, item in _names(name, value).items()}


def why_missed(wanted: Factors, known: Iterable[Factors]) -> str:
    """Why none of `known` is for `wanted`: what sets it apart from the one that is most alike."""
    found = [differences(wanted, each) for each in known]
    if not found:
        return "nothing is stored yet"
    nearest = min(found, key=len)
    more = len(nearest) - MOST_DIFFERENCES
    told = nearest[:MOST_DIFFERENCES] + ([f"{more} more"] if more > 0 else [])
    return ", ".join(told)


def differences(now: Factors, before: Factors) -> list[str]:
    """Each in words, the widest first; empty where both have the same key."""
    return list(_differences(now, before))


def _differences(now: Factors, before: Factors) -> Iterator[str]:
    if now.image != before.image:
        yield "engine image changed"
    if now.model != before.model:
        yield "weights changed"
    yield from _moved("GPU", ", ".join(before.gpu), ", ".join(now.gpu))
    yield from _moved("driver", before.driver, now.driver)
    if now.cpu != before.cpu:
        yield "CPU changed"
    for name in sorted(now.ranks.keys() | before.ranks.keys()):
        yield from _moved(name, str(before.ranks.get(name, 1)), str(now.ranks.get(name, 1)))
    for name, what in _changes(now.arguments, before.arguments):
        yield f"command {what}" if name == COMMAND else f"argument {name} {what}"
    for name, what in _changes(now.environment, before.environment):
        yield f"variable {name} {what}"


def _moved(what: str, before: str, now: str) -> Iterator[str]:
    if before != now:
        yield f"{what} changed from {before or 'none'} to {now or 'none'}"


def _changes(now: Mapping[str, str], before: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in sorted(now.keys() | before.keys()):
        if name not in before:
            yield name, "added"
        elif name not in now:
            yield name, "removed"
        elif now[name] != before[name]:
            yield name, "changed"
