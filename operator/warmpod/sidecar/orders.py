"""What the operator may ask of a boot: sleep, wake up, be exercised again.

An order is given again and again until the pod's condition says what came of it, so one that runs
already, or is fulfilled, is taken as well. It is carried out here, not in the request."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from warmpod.sidecar.engine import EngineError
from warmpod.sidecar.power import Load, Power
from warmpod.sidecar.sleep import SleepWatch
from warmpod.sidecar.sleeper import GIVEN_UP, Sleeper

log = logging.getLogger(__name__)

# Seconds. An engine that could not be put to sleep would else lose its gate again and again.
SLEEP_RETRY_SECONDS = 300.0

UNABLE = (
    "the engine cannot sleep: spec.standby.state is not Sleeping in the revision of this pod, or "
    "spec.engine.command starts it without sleep mode"
)


class OrderRefused(Exception):
    """`status` is that of HTTP: 409 for now, 501 for good."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Orders:
    """Of one boot. Raises OrderRefused."""

    def __init__(self, power: Power, watch: SleepWatch, sleeper: Sleeper) -> None:
        self._power = power
        self._watch = watch
        self._sleeper = sleeper
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._sleepless: tuple[float, str] | None = None
        # Exercises the boot again, once it is warm; returns what went wrong.
        self.replay: Callable[[], Awaitable[str]] | None = None
        self._replays = 0
        self._replay_problem = ""

    @contextmanager
    def taken(self, tasks: asyncio.TaskGroup) -> Iterator[None]:
        """Orders are carried out as tasks of the group, which ends with the boot."""
        self._tasks = tasks
        try:
            yield
        finally:
            self._tasks = None

    def replay_state(self) -> dict[str, Any]:
        """How often it was exercised again, what was wrong the last time, whether it is now."""
        return {
            "times": self._replays,
            "problem": self._replay_problem,
            "running": "replay" in self._running,
        }

    async def load(self) -> Load:
        load = await self._power.load()
        if load is None:
            raise OrderRefused(409, "the engine does not tell how many requests it has")
        return load

    async def sleep(self, warm: bool) -> None:
        if self._watch.quiet:
            return
        if not await self._can_sleep():
            raise OrderRefused(501, UNABLE)
        if not warm:
            raise OrderRefused(409, "the engine is not warm")
        if self._sleepless and time.monotonic() - self._sleepless[0] < SLEEP_RETRY_SECONDS:
            raise OrderRefused(409, f"it did not fall asleep: {self._sleepless[1]}")
        self._start("sleep", self._fall_asleep)

    def wake(self) -> None:
        if self._watch.quiet:
            self._sleeper.give_up()
            self._start("wake", self._wake_up)

    def warm(self) -> None:
        if self.replay is None or self._watch.quiet:
            raise OrderRefused(409, "the engine is not warm, or sleeps")
        self._start("replay", self._play_again)

    async def _can_sleep(self) -> bool:
        try:
            return await self._power.is_sleeping() is not None
        except EngineError as error:
            raise OrderRefused(
                409, f"the engine does not tell whether it sleeps: {error}"
            ) from error

    async def _fall_asleep(self) -> None:
        problem = await self._sleeper.put_to_sleep()
        lasting = problem and problem != GIVEN_UP
        self._sleepless = (time.monotonic(), problem) if lasting else None

    async def _wake_up(self) -> None:
        falling = self._running.get("sleep")
        if falling is not None:
            await asyncio.wait({falling})
        if self._watch.asleep:
            await self._sleeper.wake()

    async def _play_again(self) -> None:
        if self.replay is not None:
            self._replay_problem = await self.replay()
            self._replays += 1

    def _start(self, name: str, order: Callable[[], Awaitable[None]]) -> None:
        if self._tasks is None:
            raise OrderRefused(409, "this boot takes no orders: it ends, or is one to compare with")
        if name not in self._running:
            log.info("ordered: %s", name)
            self._running[name] = self._tasks.create_task(self._carry_out(name, order))

    async def _carry_out(self, name: str, order: Callable[[], Awaitable[None]]) -> None:
        try:
            await order()
        finally:
            del self._running[name]
