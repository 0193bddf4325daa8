"""Notices that somebody puts the engine to sleep or wakes it, whoever it is."""

import asyncio
import logging
import time
from collections.abc import Callable

from warmpod.sidecar import lifecycle
from warmpod.sidecar.engine import Engine, EngineError

log = logging.getLogger(__name__)

# A look costs the engine's HTTP server less than a millisecond.
POLL_SECONDS = 0.5


class SleepWatch:
    def __init__(
        self, boot_id: str, engine: Engine, tell: Callable[[lifecycle.Event], None]
    ) -> None:
        self._boot_id = boot_id
        self._engine = engine
        self._tell = tell
        self._changed = asyncio.Event()
        self.asleep = False

    async def run(self) -> None:
        """Return when the engine cannot sleep: without its development mode it has no such
        endpoints."""
        while True:
            try:
                asleep = await self._engine.is_sleeping()
            except EngineError as error:
                log.debug("boot %s: %s", self._boot_id, error)
            else:
                if asleep is None:
                    return
                self._note(asleep)
            await asyncio.sleep(POLL_SECONDS)

    async def woken(self) -> None:
        """Return when the engine has woken up."""
        self._changed.clear()
        await self._changed.wait()

    def _note(self, asleep: bool) -> None:
        if asleep == self.asleep:
            return
        self.asleep = asleep
        log.info("boot %s %s", self._boot_id, "went to sleep" if asleep else "woke up")
        if asleep:
            self._tell(lifecycle.Slept(self._boot_id))
        else:
            self._tell(lifecycle.Woke(self._boot_id, time.monotonic()))
            self._changed.set()
