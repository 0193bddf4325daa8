"""The engine as the server sees it: requests take turns, first ones are slow, it can die."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from engine_sim import logs
from engine_sim.buckets import ColdBuckets, touched
from engine_sim.metrics import Metrics
from engine_sim.requests import GenerationRequest
from engine_sim.settings import Arguments, Knobs


class EngineDeadError(Exception):
    """The engine process is gone; no request will be answered any more."""

    def __init__(self) -> None:
        super().__init__(
            "EngineCore encountered an issue. See stack trace (above) for the root cause."
        )


class Engine:
    """Runs requests against the simulated hardware."""

    def __init__(
        self, arguments: Arguments, knobs: Knobs, kill_process: Callable[[], None]
    ) -> None:
        self.metrics = Metrics(arguments.served_names[0])
        self._knobs = knobs
        self._kill_process = kill_process
        self._cold = ColdBuckets(knobs.cold_requests)
        self._slots = asyncio.Semaphore(arguments.max_num_seqs)
        self._requests = 0
        self._dead = asyncio.Event()

    @property
    def dead(self) -> bool:
        """Whether the engine process has died."""
        return self._dead.is_set()

    def mark_dead(self) -> None:
        """Fail every request in flight, and each one to come."""
        self._dead.set()

    async def steps(self, request: GenerationRequest, count: int) -> AsyncIterator[int]:
        """Yield the number of each token step as it is done, from 0 to `count` - 1."""
        started = time.monotonic()
        reason = "abort"
        self.metrics.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.metrics.waiting -= 1
        self.metrics.running += 1
        try:
            await self._prefill(request)
            for step in range(count):
                await self._spend(self._knobs.token_seconds)
                if step == 0:
                    self.metrics.first_token.observe(time.monotonic() - started)
                self.metrics.generation_tokens += 1
                yield step
            reason = "length" if count >= request.max_tokens else "stop"
        finally:
            self._slots.release()
            self.metrics.running -= 1
            self.metrics.finished[reason] += 1
            self.metrics.whole_request.observe(time.monotonic() - started)

    async def _prefill(self, request: GenerationRequest) -> None:
        self._requests += 1
        if self._knobs.fault.kills(self._requests):
            self._kill_process()
            await self._dead.wait()
        if self._knobs.fault.hangs(self._requests):
            await self._dead.wait()
        self.metrics.prompt_tokens += request.prompt_tokens
        cold = self._cold.touch(
            touched(
                request.endpoint,
                request.prompt_tokens,
                self.metrics.running,
                request.features,
            )
        )
        for bucket in cold:
            logs.late_compile(bucket)
        await self._spend(self._knobs.first_seconds if cold else 0)

    async def _spend(self, seconds: float) -> None:
        """Take `seconds`; raises EngineDeadError as soon as the engine process is dead."""
        try:
            await asyncio.wait_for(self._dead.wait(), seconds)
        except TimeoutError:
            return
        raise EngineDeadError
