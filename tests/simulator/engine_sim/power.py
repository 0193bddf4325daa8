"""Asleep, paused or running: what /sleep, /wake_up, /pause and /resume change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

TAGS = ("weights", "kv_cache")


class Power:
    """The scheduler's pause, and what memory is resident."""

    def __init__(self) -> None:
        self._running = asyncio.Event()
        self._running.set()
        self._missing: set[str] = set()
        # Whether requests that run already wait too, instead of going on to their end.
        self.frozen = False
        self._level = 0
        # False after level 2 until the weights were loaded again: answers are garbage (vllm#54235).
        self.weights_valid = True
        self.woken = 0

    @property
    def paused(self) -> bool:
        """Whether requests wait; a sleeping engine is paused too."""
        return not self._running.is_set()

    @property
    def state(self) -> str:
        """As the label `sleep_state` of vllm:engine_sleep_state."""
        if self._level == 0:
            return "awake"
        return "weights_offloaded" if self._level == 1 else "discard_all"

    @property
    def awake(self) -> bool:
        """As vLLM's metric has it: level 0 counts as asleep too."""
        return not self.paused

    async def until_running(self) -> None:
        """Wait until requests are scheduled."""
        await self._running.wait()

    def pause(self, freeze: bool = False) -> None:
        """Schedule nothing more."""
        self._running.clear()
        self.frozen = freeze

    def resume(self) -> None:
        """Schedule again."""
        self.frozen = False
        self._running.set()

    def sleep(self, level: int) -> None:
        """Give memory back: level 1 keeps the weights on the host, level 2 forgets them."""
        if level:
            self._level = level
            self._missing = set(TAGS)
        if level == 2:
            self.weights_valid = False

    def wake(self, tags: Iterable[str] = ()) -> bool:
        """Bring memory back, all of it without `tags`. Whether the engine is fully awake."""
        self._missing -= set(tags) or set(TAGS)
        if self._missing:
            return False
        self._level = 0
        self.woken += 1
        self.resume()
        return True
