"""The recorded load of one WarmModel: the most requests at a time in each step, some seasons back.

Bounded, and small enough to be kept in a ConfigMap: 4032 numbers a model with season Day.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

#: What no sample was taken of.
_GAP = -1.0
#: Bytes of a stored series when it is unpacked: many times what ours have.
_LONGEST = 1_000_000


@dataclass(frozen=True)
class Shape:
    step: int
    """Seconds that one number stands for. Bounds the work of a fit: a season has about 300."""
    season: int
    """Steps of a season."""
    kept: int
    """Steps that are kept."""


SHAPES = {
    "Day": Shape(step=300, season=288, kept=14 * 288),
    "Week": Shape(step=1800, season=336, kept=6 * 336),
}


class Series:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._values = array("f")
        #: Number of the step of the last value, counted from 1970.
        self._last = 0

    def number(self, at: datetime) -> int:
        return int(at.timestamp()) // self.shape.step

    def time(self, number: int) -> datetime:
        """When a step begins."""
        return datetime.fromtimestamp(number * self.shape.step, UTC)

    def add(self, load: float, at: datetime) -> None:
        """A sample; of a time before the last step it is left out."""
        number = self.number(at)
        if self._values and number < self._last:
            return
        if self._values and number == self._last:
            self._values[-1] = max(self._values[-1], load)
            return
        missing = number - self._last - 1 if self._values else 0
        self._values.extend([_GAP] * min(missing, self.shape.kept))
        self._values.append(load)
        self._last = number
        del self._values[: -self.shape.kept]

    def at(self, number: int) -> float | None:
        """None where there was no sample."""
        index = len(self._values) - 1 - (self._last - number)
        if not 0 <= index < len(self._values):
            return None
        found = self._values[index]
        return None if found < 0 else found

    def closed(self, now: datetime) -> tuple[float | None, ...]:
        """All steps before the present one, up to it: with gaps at the end, too."""
        end = self.number(now)
        first = max(self._last - len(self._values) + 1, end - self.shape.kept)
        return tuple(self.at(number) for number in range(first, end)) if self._values else ()

    def dump(self) -> str:
        """Rounded to whole requests: what is lost is less than what sampling loses."""
        body = {"last": self._last, "values": [round(value) for value in self._values]}
        return base64.b64encode(zlib.compress(json.dumps(body).encode())).decode()

    def load(self, text: str) -> None:
        """What an earlier operator kept, under what was recorded since. Raises ValueError."""
        last, values = _unpacked(text)
        recorded = [(self.time(n), self.at(n)) for n in self._numbers()]
        self._last, self._values = last, array("f", values[-self.shape.kept :])
        for at, value in recorded:
            if value is not None:
                self.add(value, at)

    def _numbers(self) -> range:
        return range(self._last - len(self._values) + 1, self._last + 1)


def _unpacked(text: str) -> tuple[int, list[float]]:
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(text, validate=True), _LONGEST)
        body = json.loads(raw)
        return int(body["last"]), [float(value) for value in body["values"]]
    except (binascii.Error, zlib.error, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"a stored series cannot be read: {error}") from error


def filled(values: Sequence[float | None], season: int) -> list[float] | None:
    """Without gaps: what was one season before, else the nearest value before it, else the first.
    None without a value."""
    first = next((value for value in values if value is not None), None)
    if first is None:
        return None
    found: list[float] = []
    for index, value in enumerate(values):
        if value is not None:
            found.append(value)
        elif index >= season:
            found.append(found[index - season])
        else:
            found.append(found[-1] if found else first)
    return found
