"""Keeps an eye on a warm boot: does it answer, are its answers the old ones, has it got something
new to serve, is the evidence still young?"""

import asyncio
import logging
import time
from collections.abc import Callable

from warmpod.sidecar import canary, lifecycle
from warmpod.sidecar.asking import Asker
from warmpod.sidecar.canary import Canary
from warmpod.sidecar.checks import changed_answer
from warmpod.sidecar.config import SidecarConfig
from warmpod.sidecar.engine import Engine
from warmpod.sidecar.memory import WarmMemory
from warmpod.sidecar.news import News
from warmpod.sidecar.peers import Peers
from warmpod.sidecar.record import Record
from warmpod.sidecar.sleep import SleepWatch

log = logging.getLogger(__name__)

# Between looks at an engine whose answers have changed: its weights may still be loaded again.
CHANGED_ANSWER_SECONDS = 15.0


class Watch:
    def __init__(
        self,
        boot_id: str,
        engine: Engine,
        config: SidecarConfig,
        asker: Asker,
        record: Record,
        memory: WarmMemory,
        peers: Peers,
        sleep: SleepWatch,
        tell: Callable[[lifecycle.Event], None],
    ) -> None:
        self._boot_id = boot_id
        self._config = config
        self._asker = asker
        self._record = record
        self._memory = memory
        self._peers = peers
        self._sleep = sleep
        self._tell = tell
        self._canary = Canary(engine, memory.endpoint, memory.model)
        self._news = News(engine, config, asker, record)
        self._renewed_at = time.monotonic()
        self._playing = asyncio.Lock()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_answers())
            tasks.create_task(self._watch_evidence())
            tasks.create_task(self._watch_wakes())
            tasks.create_task(self._watch_news())

    async def _watch_answers(self) -> None:
        while True:
            failed = self._record.canary_failures
            period = self._config.warmup.canary_period_seconds
            await asyncio.sleep(min(canary.RETRY_SECONDS, period) if failed else period)
            if self._sleep.quiet:
                continue
            result = await self._canary.check()
            if not self._sleep.quiet:  # else it is why there was no answer
                await self._note_canary(result)

    async def _note_canary(self, result: canary.Result) -> None:
        if not result.problem:
            self._record.canary_failures = 0
            self._tell(lifecycle.CanaryLives(self._boot_id))
            return
        self._record.canary_failures += 1
        if self._record.canary_failures <= canary.FAILURES_TO_CLOSE:
            log.warning("boot %s: %s", self._boot_id, result.problem)
        if self._record.canary_failures < canary.FAILURES_TO_CLOSE:
            return
        if result.timed_out and not await self._peers.would_serve_without_us():
            self._tell(lifecycle.CanaryTolerated(self._boot_id, result.problem))
        else:
            self._tell(lifecycle.CanaryDied(self._boot_id, result.problem, time.monotonic()))

    async def _watch_evidence(self) -> None:
        """Beside the canary, which finds an engine that hangs of it."""
        while True:
            await asyncio.sleep(self._config.warmup.canary_period_seconds)
            answers = not self._sleep.quiet and not self._record.canary_failures
            if answers and self._canary.idle and self._evidence_is_old():
                await self._renew_evidence()

    def _evidence_is_old(self) -> bool:
        return time.monotonic() - self._renewed_at >= self._config.warmup.evidence_seconds

    async def play_again(self) -> str:
        """Because somebody asked for it: what is new, and then all of it; what went wrong, or
        nothing. The gate closes only if the answers are not the old ones."""
        async with self._playing:
            await self._news.exercise()
        problem = await self._renew_evidence()
        changed = await changed_answer(self._asker, self._config.warmup.golden, self._memory)
        if changed:
            await self._sleep.suppose_woken()
        return changed or problem

    async def _renew_evidence(self) -> str:
        """The gate stays open: a slow round on an idle engine is no reason to send its users to
        others, and one that fails is followed by a canary. It is not played again at once: what
        does not settle would be played for ever."""
        async with self._playing:
            problem = await self._news.play_again()
        log.info("boot %s: evidence renewed: %s", self._boot_id, problem or "as before")
        self._record.renewed += 1
        self._renewed_at = time.monotonic()
        return problem

    async def _watch_wakes(self) -> None:
        """Also a wake-up from before the boot was proven warm."""
        seen, goldens = 0, self._config.warmup.golden
        while True:
            seen = await self._sleep.woken(seen)
            while problem := await changed_answer(self._asker, goldens, self._memory):
                log.warning("boot %s: %s", self._boot_id, problem)
                self._tell(lifecycle.AnswersChecked(self._boot_id, problem))
                await asyncio.sleep(CHANGED_ANSWER_SECONDS)
            await self._news.prime_prefixes()  # a sleep drops the prefix cache
            if self._sleep.wakes == seen:  # else what was checked is no longer there
                self._tell(lifecycle.AnswersChecked(self._boot_id, ""))

    async def _watch_news(self) -> None:
        while True:
            # A look is a line in the access log of the engine: no more of them than of canaries.
            await asyncio.sleep(self._config.warmup.canary_period_seconds)
            if not self._sleep.quiet:
                await self._news.exercise()
