"""The prefix cache: which blocks of a prompt have been computed before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from engine_sim.buckets import BLOCK


class PrefixCache:
    """Remembers whole blocks of tokens, the least used forgotten first."""

    def __init__(self, tokens: int, enabled: bool = True) -> None:
        self._capacity = tokens // BLOCK if enabled else 0
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def take(self, owner: str, tokens: Sequence[int]) -> int:
        """How many tokens at the start of a prompt are known; from now on all of it is.

        `owner` is the adapter, whose blocks are nobody else's. The last token is always computed,
        since the engine needs its logits."""
        known = 0
        matching = True
        for block in _chain(owner, tokens):
            matching = matching and block in self._blocks
            known += BLOCK if matching else 0
            self._remember(block)
        return min(known, (len(tokens) - 1) // BLOCK * BLOCK)

    def clear(self) -> None:
        """Forget everything, as a sleep or /reset_prefix_cache does."""
        self._blocks.clear()

    def _remember(self, block: int) -> None:
        if not self._capacity:
            return
        self._blocks[block] = None
        self._blocks.move_to_end(block)
        if len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)


def _chain(owner: str, tokens: Sequence[int]) -> Iterator[int]:
    """One number a whole block, which depends on everything before it."""
    block = hash(owner)
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        block = hash((block, tuple(tokens[end - BLOCK : end])))
        yield block
