"""Words and token ids of prompts that no prefix cache has seen."""

import random
from collections.abc import Sequence

# Short and common: about one token each for most tokenizers.
# fmt: off
WORDS = (
    "time", "year", "way", "day", "man", "thing", "woman", "life", "child", "world", "state",
    "group", "hand", "part", "place", "case", "week", "work", "night", "point", "home", "water",
    "room", "area", "money", "story", "fact", "month", "lot", "right", "study", "book", "eye",
    "job", "word", "issue", "side", "kind", "head", "house", "power", "hour", "game", "line",
    "end", "law", "car", "city", "name", "team", "idea", "body", "back", "face", "level", "door",
)
# fmt: on


def unique_text(words: int) -> str:
    # Not for secrets: only so that no two prompts begin alike.
    return " ".join(random.choices(WORDS, k=words))  # noqa: S311


def unique_ids(ids: Sequence[int], count: int) -> list[int]:
    return random.choices(ids, k=count)  # noqa: S311
