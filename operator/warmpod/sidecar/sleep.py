"""Notices that somebody puts the engine to sleep or wakes it, whoever it is."""

import asyncio
import logging
import time
from collections.abc import Callable

from warmpod.sidecar import lifecycle
from warmpod.sidecar.engine import EngineError
from warmpod.sidecar.power import Power, memory_problem

log = logging.getLogger(__name__)

# A look costs the engine's HTTP server less than a millisecond.
POLL_SECONDS = 0.5


class SleepWatch:
    def __init__(self, boot_id: str, power: Power, tell: Callable[[lifecycle.Event], None]) -> None:
        self._boot_id = boot_id
        self._power = power
        self._tell = tell
        self._changed = asyncio.Condition()
        self.asleep = False
        # It is about to sleep, so nothing more is to be asked of it.
        self.falling = False
        # How often it has woken up. A count, because nobody may be waiting when it does.
        self.wakes = 0
        # GiB of GPU memory of all workers, by the engine's log, since it woke up last.
        self._freed = self._held = 0.0

    @property
    def quiet(self) -> bool:
        """Whether the engine is to be left alone."""
        return self.asleep or self.falling

    async def run(self) -> None:
        """Return when the engine cannot sleep: without its development mode it has no such
        endpoints."""
        while await self.look():  # noqa: ASYNC110  another process' state
            await asyncio.sleep(POLL_SECONDS)

    async def look(self) -> bool:
        """Look once; False when the engine cannot sleep."""
        try:
            asleep = await self._power.is_sleeping()
        except EngineError as error:
            log.debug("boot %s: %s", self._boot_id, error)
            return True
        await self._note(bool(asleep))
        return asleep is not None

    def memory_freed(self, freed_gib: float, held_gib: float) -> None:
        """One worker has told it in the engine's log."""
        self._freed += freed_gib
        self._held += held_gib
        problem = memory_problem(self._freed, self._held)
        self._tell(lifecycle.MemoryHeld(self._boot_id, problem))

    async def suppose_woken(self) -> None:
        """It may have slept while nobody looked, so its answers are to be checked."""
        await self._count_wake()

    async def awake(self) -> None:
        """Return when the engine is awake."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.asleep)

    async def woken(self, seen: int) -> int:
        """Return when the engine has woken up more than `seen` times, and how often it has."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.wakes > seen)
            return self.wakes

    async def _note(self, asleep: bool) -> None:
        if asleep == self.asleep:
            return
        self.asleep = asleep
        log.info("boot %s %s", self._boot_id, "went to sleep" if asleep else "woke up")
        if asleep:
            self._tell(lifecycle.Slept(self._boot_id))
        else:
            self._freed = self._held = 0.0
            await self._count_wake()

    async def _count_wake(self) -> None:
        self.wakes += 1
        self._tell(lifecycle.Woke(self._boot_id, time.monotonic()))
        async with self._changed:
            self._changed.notify_all()
