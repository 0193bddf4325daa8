"""Puts the engine to sleep and wakes it, each step with a bound in time.

What comes of it is told by the SleepWatch, which asks the engine itself."""

import asyncio
import logging
import time
from collections.abc import Callable

from warmpod.sidecar import lifecycle
from warmpod.sidecar.engine import EngineError
from warmpod.sidecar.power import Power
from warmpod.sidecar.sleep import SleepWatch

log = logging.getLogger(__name__)

# Seconds. Longer requests are the operator's to wait for: it asks for idle pods only.
IDLE_SECONDS = 60.0
IDLE_POLL_SECONDS = 0.2
# A request that was just accepted shows in the metrics only after the engine's next step.
IDLE_READINGS = 2

NOT_IDLE = f"its engine was not idle for {IDLE_SECONDS:.0f} s"
NOT_ASLEEP = "the engine took /sleep and does not sleep"
STILL_ASLEEP = "the engine took /wake_up and sleeps on"
GIVEN_UP = "it is to wake up again"


class Sleeper:
    def __init__(
        self,
        boot_id: str,
        power: Power,
        watch: SleepWatch,
        tell: Callable[[lifecycle.Event], None],
    ) -> None:
        self._boot_id = boot_id
        self._power = power
        self._watch = watch
        self._tell = tell
        self._given_up = False

    async def put_to_sleep(self) -> str:
        """Close the gate, wait until the engine is idle, and have it sleep; what went wrong, or
        nothing."""
        self._watch.falling, self._given_up = True, False
        self._tell(lifecycle.SleepAsked(self._boot_id))
        problem = await self._fall_asleep()
        self._watch.falling = False
        if problem:
            log.warning("boot %s was not put to sleep: %s", self._boot_id, problem)
            self._tell(lifecycle.SleepFailed(self._boot_id))
        return problem

    def give_up(self) -> None:
        """Do not go on waiting for an engine that is idle."""
        self._given_up = True

    async def wake(self) -> str:
        """What went wrong; empty when the engine is awake. Its answers are checked then."""
        self._tell(lifecycle.WakeAsked(self._boot_id, time.monotonic()))
        problem = STILL_ASLEEP
        try:
            await self._power.wake_up()
        except EngineError as error:
            problem = str(error)
        await self._watch.look()
        if not self._watch.asleep:
            return ""
        log.warning("boot %s does not wake up: %s", self._boot_id, problem)
        self._tell(lifecycle.WakeFailed(self._boot_id, problem))
        return problem

    async def _fall_asleep(self) -> str:
        if problem := await self._wait_until_idle():
            return problem
        problem = NOT_ASLEEP
        try:
            await self._power.sleep()
        except EngineError as error:
            problem = str(error)
        await self._watch.look()
        if not self._watch.asleep:
            # It may have lost its weights on the way.
            await self._watch.suppose_woken()
            return problem
        await self._verify_memory()
        return ""

    async def _verify_memory(self) -> None:
        """The log's numbers may come before or after; this is what the engine believes."""
        if await self._power.offloaded() is False:
            problem = "its metrics do not say that its weights are in host memory"
            self._tell(lifecycle.MemoryHeld(self._boot_id, problem))

    async def _wait_until_idle(self) -> str:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                readings = 0
                while readings < IDLE_READINGS and not self._given_up:
                    await asyncio.sleep(IDLE_POLL_SECONDS)
                    load = await self._power.load()
                    readings = readings + 1 if load is not None and load.idle else 0
        except TimeoutError:
            return NOT_IDLE
        return GIVEN_UP if self._given_up else ""
