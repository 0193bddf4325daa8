"""Keeps one condition of the own pod at what its owner wishes, however the API server fares."""

import asyncio
import logging

from warmpod.podstatus.errors import PodStatusError
from warmpod.podstatus.own_pod import OwnPod
from warmpod.podstatus.wish import Wish

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 10.0

# Said again now and then, in case another writer replaced the condition. After an error sooner:
# a patch that timed out may still be applied, after a newer one.
REASSERT_SECONDS = 60.0
REASSERT_AFTER_ERROR_SECONDS = 5.0


class ConditionReporter:
    """`want` returns at once; `run` delivers. Only the newest wish counts: an older one that could
    not be delivered is dropped. Attempts never overlap, so they cannot overtake each other."""

    def __init__(self, pod: OwnPod, type_: str, reassert_seconds: float = REASSERT_SECONDS) -> None:
        self._pod = pod
        self._type = type_
        self._reassert_seconds = reassert_seconds
        self._wish: Wish | None = None
        self._changed = asyncio.Event()
        self._delivered = asyncio.Event()
        self.errors = 0

    def want(self, wish: Wish) -> None:
        if wish == self._wish:
            return
        self._wish = wish
        self._delivered.clear()
        self._changed.set()

    async def delivered(self, timeout_seconds: float) -> bool:
        """Wait until the API server has accepted the newest wish; False when time runs out."""
        return await _within(timeout_seconds, self._delivered)

    async def run(self) -> None:
        await self._changed.wait()
        while True:
            had_errors = await self._deliver()
            again = REASSERT_AFTER_ERROR_SECONDS if had_errors else self._reassert_seconds
            await self._wait_for_change(min(again, self._reassert_seconds))

    async def _deliver(self) -> bool:
        """Try until the newest wish is accepted; tell whether any attempt failed."""
        pause = FIRST_RETRY_SECONDS
        had_errors = False
        while not await self._attempt():
            had_errors = True
            if await self._wait_for_change(pause):
                pause = FIRST_RETRY_SECONDS
            else:
                pause = min(pause * 2, LAST_RETRY_SECONDS)
        return had_errors

    async def _attempt(self) -> bool:
        self._changed.clear()
        wish = self._wish
        if wish is None:
            raise RuntimeError(f"condition {self._type} has no wish yet")
        try:
            await self._pod.set_condition(self._type, wish.status, wish.reason, wish.message)
        except PodStatusError as error:
            self.errors += 1
            log.warning("condition %s=%s not reported: %s", self._type, wish.status, error)
            return False
        if wish != self._wish:
            return False
        self._delivered.set()
        return True

    async def _wait_for_change(self, seconds: float) -> bool:
        return await _within(seconds, self._changed)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Not `asyncio.wait_for`: before Python 3.12 it loses a cancellation that comes together with
    the event, and then `run` could not be ended any more."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
