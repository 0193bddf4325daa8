"""The vLLM of this image, as its files tell: to import it takes seconds."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warmpod.launcher.files import text_of


@dataclass(frozen=True)
class Engine:
    """Without a vLLM `sources` is empty."""

    version: str
    sources: str

    def __str__(self) -> str:
        """As people say it."""
        return f"vLLM {self.version}".strip()

    def lack(self, word: str) -> str:
        """That the sources do not have this word, in words; empty if they do."""
        if not self.sources.strip():
            return "python3 of the engine image finds no vLLM"
        return "" if word in self.sources else f"{self} does not have it"


def installed(sources: Sequence[str]) -> Engine:
    """`sources` are the files of vLLM that are to be searched, below its package."""
    from importlib.metadata import PackageNotFoundError, version  # it takes a while to import

    found = importlib.util.find_spec("vllm")
    places = list(found.submodule_search_locations or ()) if found else []
    try:
        number = version("vllm")
    except PackageNotFoundError:
        number = ""
    texts = [text_of(Path(place, source)) for place in places for source in sources]
    return Engine(number, "\n".join(texts))
