"""The simulated tokenizer: a word with the space before it is a token.

Token ids are hashes of the words, so they are the same in every process. A process knows the
words of the ids that it has given out itself."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache

KNOWN_WORDS = 16384
_PIECE = re.compile(r"\s*\S+\s+$|\s*\S+|\s+")
_FINE_PIECE = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")

_words: OrderedDict[int, str] = OrderedDict()


def pieces(text: str) -> list[str]:
    """Cut a text into tokens; together they are the text again."""
    return _PIECE.findall(text)


def fine_pieces(text: str) -> list[str]:
    """Cut a text in which punctuation counts, as in JSON."""
    return _FINE_PIECE.findall(text)


@lru_cache(maxsize=KNOWN_WORDS)
def _id_of(piece: str) -> int:
    digest = hashlib.blake2b(piece.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def ids(found: Iterable[str]) -> list[int]:
    """The ids of these tokens."""
    numbers = []
    for piece in found:
        number = _id_of(piece)
        _words[number] = piece
        numbers.append(number)
    while len(_words) > KNOWN_WORDS:
        _words.popitem(last=False)
    return numbers


def text(numbers: Iterable[int]) -> str:
    """The text of these ids; one that this process has not given out becomes a word of its own."""
    return "".join(_words.get(number, f" <{number}>") for number in numbers)
