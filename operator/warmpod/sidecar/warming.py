"""Takes one boot from its first HTTP answer to proven warmth."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from warmpod.sidecar import lifecycle, reference, steady
from warmpod.sidecar.asking import Asker
from warmpod.sidecar.checks import golden_problem, take_fingerprint
from warmpod.sidecar.config import SidecarConfig
from warmpod.sidecar.engine import Engine, EngineError
from warmpod.sidecar.learn import Learned
from warmpod.sidecar.lifecycle import Evidence
from warmpod.sidecar.memory import WarmMemory
from warmpod.sidecar.planning import PREFIX, Bucket, Endpoint, waves_for
from warmpod.sidecar.record import Record
from warmpod.sidecar.rounds import PlayedRound
from warmpod.sidecar.serving import present_plan, what_is_served
from warmpod.sidecar.settling import Settling
from warmpod.sidecar.steady import Judgement

log = logging.getLogger(__name__)

HTTP_POLL_SECONDS = 0.2
FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 15.0

HITS = "prefix_cache_hits"

# After a failure that more of the same will hardly cure.
LAST_PAUSE_AFTER_FAILURE_SECONDS = 300.0


class WarmUp:
    def __init__(
        self,
        boot_id: str,
        engine: Engine,
        config: SidecarConfig,
        asker: Asker,
        record: Record,
        tell: Callable[[lifecycle.Event], None],
    ) -> None:
        self._boot_id = boot_id
        self._engine = engine
        self._config = config
        self._asker = asker
        self._record = record
        self._tell = tell

    async def wait_for_http(self) -> None:
        while not await self._engine.answers():  # noqa: ASYNC110  another process' state
            await asyncio.sleep(HTTP_POLL_SECONDS)
        self._tell(lifecycle.HttpAnswered(self._boot_id, time.monotonic()))

    async def learn(self) -> Learned:
        """Ask until the engine tells what it serves."""
        for pause in _pauses(LAST_PAUSE_SECONDS):
            try:
                learned = await what_is_served(
                    self._engine, self._config, self._asker, self._record
                )
            except EngineError as error:
                log.warning("boot %s: %s", self._boot_id, error)
                answered = error.status is not None
                self._tell(lifecycle.RequestsFailed(self._boot_id, str(error), answered))
                await asyncio.sleep(pause)
            else:
                self._tell(lifecycle.Learned(self._boot_id))
                return learned
        raise AssertionError("pauses never end")

    async def run(self, earlier: WarmMemory | None) -> None:
        """`earlier`: what a sidecar before this one proved of the boot."""
        learned = await self.learn()
        self._record.version = await self._engine.version()
        self._record.served = learned.served
        self._record.plan = plan = present_plan(learned.served, self._config)
        for note in plan.notes:
            log.info("plan: %s", note)
            self._record.note(note)
        settling = Settling(plan, self._asker.ask, self._record, self._config.warmup)
        await self._settle(settling)
        await self._match_goldens(learned.served.model)
        await self._verify_prefixes()
        await self._compare(learned.served.model)
        await self._prove(learned, settling, earlier)

    async def _settle(self, settling: Settling) -> None:
        pauses = _pauses(LAST_PAUSE_AFTER_FAILURE_SECONDS)
        while True:
            played, judgement = await settling.play()
            self._note(settling, played, judgement)
            if judgement.settled:
                return
            if played.problems or settling.played >= self._config.warmup.max_rounds:
                await asyncio.sleep(next(pauses))
            else:
                pauses = _pauses(LAST_PAUSE_AFTER_FAILURE_SECONDS)

    def _note(self, settling: Settling, played: PlayedRound, judgement: Judgement) -> None:
        record = self._record
        record.rounds, record.played = settling.rounds, settling.played
        record.plan, record.judgement = settling.plan, judgement.why
        log.info("boot %s: round %d: %s", self._boot_id, settling.played, judgement.why)
        if not played.problems:
            unsettled = "" if judgement.settled else judgement.why
            self._tell(lifecycle.RoundPlayed(self._boot_id, unsettled))
            return
        answered = any(problem.answered for problem in played.problems)
        self._tell(lifecycle.RequestsFailed(self._boot_id, played.problems[0].text, answered))

    async def _match_goldens(self, model: str) -> None:
        for pause in _pauses(LAST_PAUSE_AFTER_FAILURE_SECONDS):
            problem = await golden_problem(self._asker, self._config.warmup.golden, model)
            if not problem:
                return
            log.warning("boot %s: %s", self._boot_id, problem)
            self._tell(lifecycle.GoldenDiffered(self._boot_id, problem))
            await asyncio.sleep(pause)

    async def _verify_prefixes(self) -> None:
        for bucket in self._record.plan.buckets:
            if not bucket.name.startswith(PREFIX):
                continue
            try:
                hit = await self._hits_prefix(bucket)
            except EngineError as error:
                self._record.note(f"{bucket.name}: whether it hits is not known: {error}")
                continue
            if not hit:
                self._record.note(f"{bucket.name}: the engine counted no hit of its prefix cache")

    async def _hits_prefix(self, bucket: Bucket) -> bool:
        before = await self._engine.counters()
        for body in waves_for(bucket)[-1]:
            await self._asker.ask(bucket.endpoint, body)
        after = await self._engine.counters()
        return after.get(HITS, 0.0) > before.get(HITS, 0.0)

    async def _compare(self, model: str) -> None:
        compare = self._config.warmup.compare
        if compare is None:
            return
        try:
            ours = await reference.answers(self._asker, self._endpoint(), model, compare.samples)
        except (EngineError, ValueError) as error:
            self._record.note(f"spec.warmup.compare: {error}")
            return
        self._record.comparison = reference.compared(self._config.run_dir, ours)

    async def _prove(
        self, learned: Learned, settling: Settling, earlier: WarmMemory | None
    ) -> None:
        model, endpoint = learned.served.model, self._endpoint()
        evidence = Evidence(settling.played, learned.first_token, self._steady(settling))
        buckets = tuple(sorted(self._record.plan.names | self._record.left_out))
        if earlier is not None:  # its answers are to be the old ones
            self._record.memory = replace(earlier, evidence=evidence, buckets=buckets)
        else:
            taken = await take_fingerprint(self._asker, endpoint, model)
            self._record.memory = WarmMemory(
                self._boot_id, evidence, endpoint, model, taken, buckets
            )
        self._tell(lifecycle.Settled(self._boot_id, evidence))

    def _endpoint(self) -> Endpoint:
        """The most used one."""
        return self._record.plan.buckets[0].endpoint

    def _steady(self, settling: Settling) -> float:
        """Of the first bucket, which is the most used one. Seconds."""
        figures = steady.bucket_figures(settling.rounds)
        return figures[settling.plan.buckets[0].name].steady


def _pauses(longest: float) -> Iterator[float]:
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(pause * 2, longest)
