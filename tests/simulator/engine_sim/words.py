"""Made-up content that depends on a key alone: the simulator's stand-in for a model's mind."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TypeVar

SENTENCE = (
    "warm pods serve the first token without a wait because every kernel was used before any "
    "user came and the gate opened on what was measured not on what was hoped for"
)
WORDS = SENTENCE.split()

T = TypeVar("T")


class Draws:
    """Numbers that look random and depend on the key only."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._block = b""
        self._blocks = 0

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit` - 1."""
        while len(self._block) < 4:
            counter = self._blocks.to_bytes(8, "big")
            self._block += hashlib.blake2b(counter, key=self._hashed()).digest()
            self._blocks += 1
        number, self._block = self._block[:4], self._block[4:]
        return int.from_bytes(number, "big") % limit

    def fraction(self) -> float:
        """A number from 0 to 1."""
        return self.below(1 << 24) / (1 << 24)

    def choose(self, choices: Sequence[T]) -> T:
        """One of them."""
        return choices[self.below(len(choices))]

    def words(self, count: int) -> list[str]:
        """So many words; no two in a row are the same."""
        found: list[str] = []
        while len(found) < count:
            word = self.choose(WORDS)
            if found[-1:] != [word]:
                found.append(word)
        return found

    def unit_vector(self, size: int) -> list[float]:
        """A vector of length 1."""
        raw = [self.fraction() - 0.5 for _ in range(size)]
        length = math.sqrt(sum(value * value for value in raw)) or 1.0
        return [value / length for value in raw]

    def _hashed(self) -> bytes:
        return hashlib.blake2b(self._key, digest_size=32).digest()
