"""The long-running agent: looks in threads, HTTP and reports in the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from aiohttp import web

from warmpod.agent.cache.leftovers import Leftovers
from warmpod.agent.cache.store import CompileStore
from warmpod.agent.config import AgentConfig, WeightSet
from warmpod.agent.farewell import Farewell
from warmpod.agent.keeper import Keeper
from warmpod.agent.lifecycle import Verdict, combine, decide
from warmpod.agent.progress import Cancelled, Progress
from warmpod.agent.residency.scrub import background
from warmpod.agent.server import make_application
from warmpod.agent.sets import Copies, place
from warmpod.agent.sources.lookup import SourceReplaced
from warmpod.agent.state import AgentState, SetState
from warmpod.podstatus import ConditionReporter, ConditionStatus, OwnPod, Wish
from warmpod.protocol import RESIDENT_CONDITION

log = logging.getLogger(__name__)

SHOW_SECONDS = 0.2
# How long the API server gets to take note of a loss before it is repaired.
TELL_SECONDS = 5.0
# How often it is said that this agent lives, also during a look that takes hours, and how often
# copies of the node that nobody needs any more are looked for.
TEND_SECONDS = 60.0
# How long this agent's own copies have been complete when earlier ones go.
SUPERSEDED_SECONDS = 60.0


def _store_of(config: AgentConfig) -> CompileStore | None:
    cache = config.compile_cache
    if cache is None:
        return None
    return CompileStore(cache.root, cache.bytes, Leftovers(cache.stores, config.model_uid))


class Service:
    def __init__(self, config: AgentConfig, pod: OwnPod) -> None:
        self._config = config
        self._pod = pod
        self._reporter = ConditionReporter(pod, RESIDENT_CONDITION)
        self._copies = Copies.of(config)
        self._progress = {weights.name: Progress() for weights in config.sets}
        self._keepers = {weights.name: self._keeper(weights) for weights in config.sets}
        self._store = _store_of(config)
        self._farewell = Farewell(config, pod, self._copies, self._store)
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._replaced: SourceReplaced | None = None

    async def run(self) -> None:
        """Until SIGTERM or SIGINT. Raises SourceReplaced when only a new container helps."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stop)
        runner = web.AppRunner(make_application(self._config, self._state), access_log=None)
        await runner.setup()
        try:
            # No host: both address families, whichever the pod has.
            await web.TCPSite(runner, port=self._config.port).start()
            await self._work()
            await self._farewell.say()
            if self._replaced is not None:
                raise self._replaced
        finally:
            for copies in self._copies:
                copies.close()
            await runner.cleanup()
            await self._pod.close()

    def stop(self) -> None:
        self._stopping.set()
        if self._store is not None:
            self._store.stop()
        for progress in self._progress.values():
            progress.stop()

    def _keeper(self, weights: WeightSet) -> Keeper:
        progress = self._progress[weights.name]
        placed = place(self._config, weights, self._copies, progress.watch)
        return Keeper(self._config.medium, placed, progress, self._tell)

    def _state(self) -> AgentState:
        sets = tuple(self._state_of(weights) for weights in self._config.sets)
        verdict = combine([(each.name, each.verdict) for each in sets])
        if self._stopping.is_set() and self._replaced is None:
            verdict = Verdict(False, verdict.reason, "the agent is stopping")
        return AgentState(verdict, sets, self._store.state if self._store is not None else None)

    def _state_of(self, weights: WeightSet) -> SetState:
        keeper = self._keepers[weights.name]
        facts = keeper.facts()
        return SetState(
            name=weights.name,
            remote=weights.remote is not None,
            facts=facts,
            verdict=decide(facts),
            reloads=keeper.reloads,
            repairs=keeper.repairs,
            scrub_seconds=keeper.scrub_seconds,
        )

    async def _work(self) -> None:
        """An agent that cannot report any more ends, and the kubelet starts the next one."""
        keepers = list(self._keepers.values())
        looking = ThreadPoolExecutor(len(keepers), "look")
        scrubbing = background(len(keepers))
        tending = ThreadPoolExecutor(1, "tend")
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(self._reporter.run()),
                group.create_task(self._stop_with_the_pod()),
                group.create_task(self._show()),
                group.create_task(self._drop_superseded()),
            ]
            if self._store is not None:  # no worker: nobody waits for a copy that takes long
                helpers.append(group.create_task(self._keep(self._store)))
            workers = [group.create_task(self._look(looking, keeper)) for keeper in keepers]
            # Waited for like a look: joining after the farewell would need the copies once more.
            workers.append(group.create_task(self._tend(tending)))
            if self._config.scrub_seconds is not None:
                workers += [group.create_task(self._scrub(scrubbing, k)) for k in keepers]
            try:
                await asyncio.wait(workers)
            finally:
                self.stop()  # the threads do not notice that nobody waits for them
                for task in helpers:
                    task.cancel()

    async def _stop_with_the_pod(self) -> None:
        """As SIGTERM does, which may have come too early to be noticed."""
        await self._pod.leaving.wait()
        self.stop()

    async def _look(self, executor: Executor, keeper: Keeper) -> None:
        try:
            await self._again_and_again(executor, keeper.look, self._config.look_seconds)
        except SourceReplaced as error:
            self._replaced = error
            self.stop()

    async def _scrub(self, executor: Executor, keeper: Keeper) -> None:
        period = self._config.scrub_seconds
        if period is None or await self._stops_within(period):
            return
        await self._again_and_again(executor, keeper.scrub, period)

    async def _keep(self, store: CompileStore) -> None:
        executor = ThreadPoolExecutor(1, "store")
        await self._again_and_again(executor, store.look, self._config.look_seconds)

    async def _tend(self, executor: Executor) -> None:
        await self._again_and_again(executor, self._join, TEND_SECONDS)

    def _join(self) -> None:
        for copies in self._copies:
            try:
                copies.join()
            except OSError as error:
                # Looks join as well, and report what keeps them from it.
                log.warning("copies that nobody needs could not be looked for: %s", error)

    async def _again_and_again(
        self, executor: Executor, work: Callable[[], None], pause: float
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(executor, work)
            except Cancelled:
                return
            if await self._stops_within(pause):
                return

    async def _stops_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def _show(self) -> None:
        shown: str | None = None
        while True:
            verdict = self._state().verdict
            if verdict.reason != shown:
                log.info("%s: %s", verdict.reason, verdict.message)
                shown = verdict.reason
            self._want(verdict)
            await asyncio.sleep(SHOW_SECONDS)

    def _want(self, verdict: Verdict) -> None:
        status: ConditionStatus = "True" if verdict.ready else "False"
        self._reporter.want(Wish(status, verdict.reason, verdict.message))

    def _tell(self) -> None:
        """From a keeper's thread: have the API server know the present state."""
        if self._loop is None:
            raise RuntimeError("a keeper looked before the service ran")
        told = asyncio.run_coroutine_threadsafe(self._tell_now(), self._loop)
        with contextlib.suppress(TimeoutError):
            told.result(2 * TELL_SECONDS)  # longer only when the loop has ended

    async def _tell_now(self) -> None:
        self._want(self._state().verdict)
        if not await self._reporter.delivered(TELL_SECONDS):
            log.warning("the API server does not know yet that weights are not resident")

    async def _drop_superseded(self) -> None:
        """Copies of earlier revisions go once this agent's own have been complete for a while."""
        ready_since: float | None = None
        while True:
            await asyncio.sleep(min(self._config.look_seconds, SUPERSEDED_SECONDS))
            now = time.monotonic()
            ready_since = (ready_since or now) if self._state().verdict.ready else None
            if ready_since is not None and now - ready_since >= SUPERSEDED_SECONDS:
                for copies in self._copies:
                    try:
                        await asyncio.to_thread(copies.drop_superseded)
                    except OSError:
                        log.exception("copies of an earlier revision could not be removed")
