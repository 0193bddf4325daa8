"""The engine as the server sees it: requests take turns, first ones are slow, it can die."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from engine_sim import buckets, logs
from engine_sim.buckets import Bucket, ColdBuckets
from engine_sim.errors import EngineDeadError, RequestError
from engine_sim.hardware import Hardware
from engine_sim.kernels import store_of
from engine_sim.metrics import Metrics
from engine_sim.power import Power
from engine_sim.prefixcache import PrefixCache
from engine_sim.setup import Setup
from engine_sim.slots import Slots


@dataclass(frozen=True)
class Work:
    """What a request costs the hardware, whatever its answer is."""

    endpoint: str
    tokens: tuple[int, ...]
    features: frozenset[str] = frozenset()
    fine_features: frozenset[str] = frozenset()
    adapter: str = ""
    priority: int = 0
    max_tokens: int = 1
    schema: str = ""
    generates: bool = True


class Aborted(Exception):
    """The engine ended a request early, for a sleep or a pause."""


@dataclass(eq=False)
class Progress:
    """A request in the engine."""

    began: float = field(default_factory=time.monotonic)
    scheduled: float = 0.0
    first: float = 0.0
    last: float = 0.0
    steps: int = 0
    cached_tokens: int = 0
    # Set when the request has to end now.
    stop: asyncio.Event = field(default_factory=asyncio.Event)


class Engine:
    """Runs requests against the simulated hardware."""

    def __init__(self, setup: Setup, kill_process: Callable[[], None]) -> None:
        arguments, knobs = setup.arguments, setup.knobs
        self.power = Power()
        self.prefixes = PrefixCache(knobs.kv_cache_tokens, arguments.prefix_caching)
        self.metrics = Metrics(
            arguments.served_names[0],
            knobs.kv_cache_tokens,
            arguments.max_loras if arguments.enable_lora else None,
        )
        self._knobs = knobs
        self._fine = knobs.kernel_classes == "fine"
        self._budget = arguments.max_num_batched_tokens
        self._prefix_caching = arguments.prefix_caching
        self._monitored = not arguments.enforce_eager  # vLLM arms its JIT monitor with its graphs
        self._kill_process = kill_process
        self._hardware = Hardware(knobs)
        self._store = store_of(setup.switches)
        compiled = self._store.load() if knobs.kernel_cache else []
        self._cold = ColdBuckets(knobs.cold_requests, compiled)
        self._slots = Slots(arguments.max_num_seqs)
        self._decoding = 0
        self._requests = 0
        # How often the engine began to work after it had nothing to do, when it last had a request
        # of each kind, and how many.
        self._waves = 0
        self._last_wave: dict[Bucket, int] = {}
        self._kinds: Counter[Bucket] = Counter()
        self._in_flight: set[Progress] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._batch_empty = asyncio.Event()
        self._batch_empty.set()
        self._dead = False
        self._draining = False

    @property
    def dead(self) -> bool:
        """Whether the engine process has died."""
        return self._dead

    @property
    def running(self) -> int:
        """How many requests are in the batch."""
        return self.metrics.running.total()

    async def until_batch_empty(self) -> None:
        """Wait until no request runs; some may wait."""
        await self._batch_empty.wait()

    async def until_idle(self) -> None:
        """Wait until there is no request, not even a waiting one."""
        await self._idle.wait()

    def page(self) -> str:
        """The body of /metrics."""
        self.metrics.sleep_state = self.power.state
        self.metrics.awake = self.power.awake
        return self.metrics.render()

    def mark_dead(self) -> None:
        """Fail every request in flight, and each one to come."""
        self._dead = True
        self.abort()

    def drain(self) -> None:
        """Take no new requests; those in flight go on."""
        self._draining = True

    def abort(self) -> None:
        """End every request in flight."""
        for progress in self._in_flight:
            progress.stop.set()

    async def steps(self, work: Work, count: int, progress: Progress) -> AsyncIterator[int]:
        """Yield the number of each token step as it is done, from 0 to `count` - 1.

        Ends early when the request is aborted. Raises EngineDeadError, and RequestError for what
        the engine does not take now."""
        self.admit()
        self._in_flight.add(progress)
        self._idle.clear()
        reason = "abort"
        try:
            await self._queue(work, progress)
            try:
                await self._prefill(work, progress)
                self._decoding += 1
                try:
                    async for step in self._decode(work, count, progress):
                        yield step
                finally:
                    self._decoding -= 1
                reason = "length" if count >= work.max_tokens and work.generates else "stop"
            finally:
                self._release(work)
        except Aborted:
            if self._dead:
                raise EngineDeadError from None
        finally:
            self._in_flight.discard(progress)
            if not self._in_flight:
                self._idle.set()
            self._finish(work, progress, reason)

    def admit(self) -> None:
        """Raises EngineDeadError and RequestError for what would not be taken now."""
        if self._dead:
            raise EngineDeadError
        if self._draining:
            raise RequestError(
                500, "InternalServerError", "cannot schedule new futures after shutdown"
            )
        if self.power.paused and self._knobs.paused == "503":
            raise RequestError(503, "ServiceUnavailableError", "Engine is paused.", "engine_paused")

    async def _queue(self, work: Work, progress: Progress) -> None:
        """Wait until the engine runs, and for a place in the batch."""
        self.metrics.waiting[work.adapter] += 1
        try:
            await self._while_paused(progress)
            await self._take_slot(work, progress)
        finally:
            self.metrics.waiting[work.adapter] -= 1
        self._waves += self.running == 0
        self.metrics.running[work.adapter] += 1
        self._batch_empty.clear()
        self.metrics.kv_tokens_used += len(work.tokens)
        progress.scheduled = time.monotonic()

    def _release(self, work: Work) -> None:
        self._slots.give_back()
        self.metrics.running[work.adapter] -= 1
        if not self.running:
            self._batch_empty.set()
        self.metrics.kv_tokens_used -= len(work.tokens)

    async def _prefill(self, work: Work, progress: Progress) -> None:
        self._requests += 1
        features = self._features(work)
        kind = buckets.kind(work.endpoint, len(work.tokens), self.running, features)
        await self._perhaps_fail(kind, work, progress)
        self.metrics.prompt_tokens += len(work.tokens)
        progress.cached_tokens = self._cached(work)
        cold = self._compile(self._touched(work, features))
        self._spoil_caches(kind)
        self._last_wave[kind] = self._waves
        self._kinds[kind] += 1
        seconds = self._hardware.prefill(
            self._kinds[kind], cold, len(work.tokens) - progress.cached_tokens, self.running - 1
        )
        await self._spend(progress, seconds + self._hardware.schema(work.schema))

    def _features(self, work: Work) -> set[str]:
        features = set(work.features)
        if work.adapter:
            features.add(f"adapter-{work.adapter}")
        if self._fine:
            features |= work.fine_features
            features |= {"mixed"} if self._decoding else set()
            features |= {"chunked"} if len(work.tokens) > self._budget else set()
        return features

    def _touched(self, work: Work, features: set[str]) -> list[Bucket]:
        touched = buckets.finely_touched if self._fine else buckets.touched
        return touched(work.endpoint, len(work.tokens), self.running, features)

    async def _perhaps_fail(self, kind: Bucket, work: Work, progress: Progress) -> None:
        fault = self._knobs.fault
        repeated = self._last_wave.get(kind, self._waves) < self._waves
        if fault.kills(self._requests, repeated, work.features):
            self._kill_process()
            await self._spend(progress, None)
        if fault.hangs(self._requests):
            await self._spend(progress, None)

    def _cached(self, work: Work) -> int:
        if not (self._prefix_caching and work.tokens):
            return 0
        cached = self.prefixes.take(work.adapter, work.tokens)
        self.metrics.prefix_queries += len(work.tokens)
        self.metrics.prefix_hits += cached
        return cached

    def _compile(self, touched: list[Bucket]) -> int:
        """Compile what is cold; how often the coldest was used before, -1 when all are warm."""
        seen = {bucket: self._cold.seen(bucket) for bucket in touched}
        cold = self._cold.touch(touched)
        for bucket in cold:
            if self._monitored:
                logs.late_compile(bucket)
            if seen[bucket] == 0:
                self._store.add(bucket)
        return min((seen[bucket] for bucket in cold), default=-1)

    def _spoil_caches(self, kind: Bucket) -> None:
        """The faults that compile although everything is warm."""
        fault = self._knobs.fault
        if fault.name == "cache-grows":
            self._store.grow()
        if fault.name == "late-compile" and self._kinds[kind] < fault.count:
            logs.late_compile(kind, f"_{self._kinds[kind]}")

    async def _decode(self, work: Work, count: int, progress: Progress) -> AsyncIterator[int]:
        for step in range(count):
            await self._spend(progress, self._hardware.token())
            if self.power.frozen:
                await self._while_paused(progress)
            now = time.monotonic()
            if step == 0:
                progress.first = now
                self.metrics.times["first_token"].observe(now - progress.began)
                self.metrics.times["prefill"].observe(now - progress.scheduled)
            else:
                self.metrics.times["inter_token"].observe(now - progress.last)
            progress.last = now
            progress.steps = step + 1
            self.metrics.generation_tokens += work.generates
            yield step

    def _finish(self, work: Work, progress: Progress, reason: str) -> None:
        now, times = time.monotonic(), self.metrics.times
        self.metrics.finished[reason] += 1
        times["whole"].observe(now - progress.began)
        if not progress.first:
            return
        times["queue"].observe(progress.scheduled - progress.began)
        times["inference"].observe(progress.last - progress.scheduled)
        times["decode"].observe(progress.last - progress.first)
        if progress.steps > 1 and work.generates:
            between = (progress.last - progress.first) / (progress.steps - 1)
            times["per_token"].observe(between)

    async def _spend(self, progress: Progress, seconds: float | None) -> None:
        """Take `seconds`, or for ever; raises Aborted as soon as the request has to end."""
        try:
            await asyncio.wait_for(progress.stop.wait(), seconds)
        except TimeoutError:
            return
        raise Aborted

    async def _while_paused(self, progress: Progress) -> None:
        if self.power.paused:
            await _unless_stopped(progress, asyncio.ensure_future(self.power.until_running()))

    async def _take_slot(self, work: Work, progress: Progress) -> None:
        turn = asyncio.ensure_future(self._slots.take(work.priority))
        try:
            await _unless_stopped(progress, turn)
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._slots.give_back()
            raise


async def _unless_stopped(progress: Progress, awaited: asyncio.Future[None]) -> None:
    """Wait for something; raises Aborted as soon as the request has to end."""
    stopped = asyncio.ensure_future(progress.stop.wait())
    try:
        await asyncio.wait((awaited, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not awaited.done():
            raise Aborted
    finally:
        stopped.cancel()
        if not awaited.done():
            awaited.cancel()
