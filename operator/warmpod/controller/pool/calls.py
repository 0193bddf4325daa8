"""Calls to sidecars, beside the reconciles: a pod that does not answer keeps nobody waiting."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Literal

from warmpod.controller.clients.sidecars import SidecarError
from warmpod.controller.objects.views import Key, PodView
from warmpod.controller.pool.decision import POLL, SLEEP_POLL, PoolPlan
from warmpod.controller.pool.idle import Idle
from warmpod.controller.pool.seam import Sidecars

logger = logging.getLogger(__name__)

#: Seconds until a pod that refused to sleep is asked again.
REFUSED = 60.0

Verb = Literal["sleep", "wake", "load"]


class Calls:
    def __init__(
        self,
        sidecars: Sidecars,
        idle: Idle,
        news: Callable[[Key], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`news`: has a WarmModel looked at, whose pods have said something new."""
        self._sidecars = sidecars
        self._idle = idle
        self._news = news
        self._clock = clock
        self._now = now
        self._running: dict[tuple[Verb, str], asyncio.Task[None]] = {}
        self._not_before: dict[tuple[Verb, str], float] = {}

    def start(self, key: Key, plan: PoolPlan) -> None:
        """Makes the calls that are due, and returns at once."""
        self._forget_past()
        for pod in plan.wake:
            self._call("wake", pod, POLL, self._wake(pod))
        for pod in plan.sleep:
            self._call("sleep", pod, SLEEP_POLL, self._sleep(pod))
        for pod in plan.ask:
            self._call("load", pod, POLL / 2, self._ask(key, pod))
        self._idle.keep(key, {pod.meta.uid for pod in plan.ask})

    async def close(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _call(
        self, verb: Verb, pod: PodView, pause: float, work: Coroutine[Any, Any, None]
    ) -> None:
        """One call of a kind and pod at a time, and not more often than every `pause` seconds."""
        place: tuple[Verb, str] = (verb, pod.meta.uid)
        if place in self._running or self._clock() < self._not_before.get(place, 0.0):
            work.close()
            return
        self._not_before[place] = self._clock() + pause
        task = asyncio.create_task(work)
        self._running[place] = task
        task.add_done_callback(lambda _: self._running.pop(place, None))

    async def _wake(self, pod: PodView) -> None:
        try:
            await self._sidecars.wake(pod)
        except SidecarError as error:
            logger.warning("pod %s/%s does not wake up: %s", *pod.meta.key, error)

    async def _sleep(self, pod: PodView) -> None:
        try:
            await self._sidecars.sleep(pod)
        except SidecarError as error:
            self._not_before[("sleep", pod.meta.uid)] = self._clock() + REFUSED
            logger.warning("pod %s/%s does not fall asleep: %s", *pod.meta.key, error)

    async def _ask(self, key: Key, pod: PodView) -> None:
        load = await self._sidecars.load(pod)
        before = pod.meta.uid in self._idle.of(key)
        self._idle.note(key, pod.meta.uid, load, self._now())
        if before != (pod.meta.uid in self._idle.of(key)):
            self._news(key)

    def _forget_past(self) -> None:
        now = self._clock()
        self._not_before = {place: at for place, at in self._not_before.items() if at > now}
