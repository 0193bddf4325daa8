"""Places in the running batch, given to waiting requests in order."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class Slots:
    """At most `size` requests run at once; with priorities, the lower one goes first."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def take(self, priority: int = 0) -> None:
        """Wait for a place."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._order), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """End a request; the next one waiting gets the place."""
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
