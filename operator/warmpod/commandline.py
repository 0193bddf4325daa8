"""The words of a command line, cut into options as argparse cuts them. Standard library only.

For two readers: `engine` looks for the few options that the operator must know, in any spelling,
and `compilecache` hashes all of them. How a name is understood is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

_NEGATIVE_NUMBER = re.compile(r"^-\d+(\.\d*)?$")


@dataclass(frozen=True)
class Written:
    """An option as it is written, with its dashes."""

    name: str
    value: str | None
    """Behind its `=`."""
    following: tuple[str, ...]
    """The words up to the next option."""


def leading(words: Sequence[str]) -> tuple[str, ...]:
    """The words before the first option."""
    return tuple(takewhile(lambda word: not _is_option(word), words))


def cut(words: Sequence[str]) -> Iterator[Written]:
    """The options, in order. A lone `--` is one, too."""
    for index, word in enumerate(words):
        if _is_option(word):
            name, equals, value = word.partition("=")
            yield Written(name, value if equals else None, leading(words[index + 1 :]))


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NEGATIVE_NUMBER.match(word)
