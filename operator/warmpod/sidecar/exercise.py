"""Takes one boot from its first HTTP answer to steady latency, then keeps an eye on it."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from warmpod.protocol import PROMPTS_MOUNT
from warmpod.sidecar import canary, lifecycle, steady
from warmpod.sidecar.canary import Canary
from warmpod.sidecar.config import SidecarConfig
from warmpod.sidecar.engine import Engine, EngineError, Reply
from warmpod.sidecar.learn import Learned, learn
from warmpod.sidecar.lifecycle import Evidence
from warmpod.sidecar.memory import WarmMemory
from warmpod.sidecar.planning import Endpoint, Plan, inline_prompts, make_plan, read_prompts
from warmpod.sidecar.rounds import PlayedRound, play_round
from warmpod.sidecar.steady import Round

log = logging.getLogger(__name__)

HTTP_POLL_SECONDS = 0.2
FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 15.0

# Until a compilation in the engine's log has come through the launcher, in seconds.
LATE_COMPILE_LAG_SECONDS = 0.3

# A warm-up that never settles goes on for days. More than the steady state looks at.
KEPT_ROUNDS = 12

# A first request may compile for many minutes. Cutting it loses nothing but its answer: the
# engine goes on compiling, and the next request waits for that.
REQUEST_SECONDS = 600.0


@dataclass
class Record:
    """What is known of a boot's warm-up, for /status, the metrics and the time line."""

    version: str = ""
    plan: Plan = field(default_factory=lambda: Plan(()))
    rounds: list[Round] = field(default_factory=list)  # the last ones
    played: int = 0
    judgement: str = ""
    late_compiles: int = 0
    memory: WarmMemory | None = None
    canary_failures: int = 0


class Exercise:
    """`tell` takes what happened; it is the only way out to the gate."""

    def __init__(
        self,
        boot_id: str,
        engine: Engine,
        config: SidecarConfig,
        tell: Callable[[lifecycle.Event], None],
    ) -> None:
        self.record = Record()
        self.boot_id = boot_id
        self._engine = engine
        self._config = config
        self._tell = tell
        self._request_seconds = max(REQUEST_SECONDS, 2.0 * config.warmup.stall_seconds)

    async def run(self, earlier: WarmMemory | None) -> None:
        """`earlier`: a sidecar before this one has proven the boot warm."""
        if earlier is None or not await self._resume(earlier):
            await self._wait_for_http()
            await self._warm_up()
        await self._watch()

    async def _wait_for_http(self) -> None:
        while not await self._engine.answers():  # noqa: ASYNC110  another process' state
            await asyncio.sleep(HTTP_POLL_SECONDS)
        self._tell(lifecycle.HttpAnswered(self.boot_id, time.monotonic()))

    async def _resume(self, earlier: WarmMemory) -> bool:
        problem = await Canary(self._engine, earlier.endpoint, earlier.model).check()
        if problem:
            log.warning("boot %s was warm, but is warmed up again: %s", self.boot_id, problem)
            self._tell(lifecycle.NotResumed(self.boot_id))
            return False
        self.record.memory = earlier
        self._tell(lifecycle.Settled(self.boot_id, earlier.evidence))
        return True

    async def _warm_up(self) -> None:
        learned = await self._learn()
        self._tell(lifecycle.Learned(self.boot_id))
        self.record.version = await self._engine.version()
        self.record.plan = self._plan(learned)
        for note in self.record.plan.notes:
            log.info("plan: %s", note)
        pause = FIRST_PAUSE_SECONDS
        while not await self._play(learned):
            if self.record.rounds[-1].problems or self._over_budget():
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_PAUSE_SECONDS)

    def _plan(self, learned: Learned) -> Plan:
        warmup = self._config.warmup
        prompts, notes = read_prompts(Path(PROMPTS_MOUNT), warmup.prompts_from)
        plan = make_plan(learned.served, warmup, [*inline_prompts(warmup.prompts), *prompts])
        return replace(plan, notes=plan.notes + notes)

    async def _learn(self) -> Learned:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await learn(
                    self._engine,
                    self._config.served_name,
                    self._request_seconds,
                    self._token,
                    self._config.engine,
                    self._config.warmup,
                )
            except EngineError as error:
                log.warning("boot %s: %s", self.boot_id, error)
                problem = lifecycle.RequestsFailed(
                    self.boot_id, str(error), error.status is not None
                )
                self._tell(problem)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    async def _play(self, learned: Learned) -> bool:
        """Play a round; whether the boot has settled with it."""
        compiled_before = self.record.late_compiles

        played = await play_round(self.record.plan, self._ask)
        if self._judge(self._finished(played, compiled_before)).settled:
            await asyncio.sleep(LATE_COMPILE_LAG_SECONDS)
        finished = self._finished(played, compiled_before)
        judgement = self._judge(finished)
        self.record.played += 1
        self.record.rounds = [*self.record.rounds, finished][-KEPT_ROUNDS:]
        self.record.judgement = judgement.why
        self._report(played, judgement, learned)
        return judgement.settled

    def _finished(self, played: PlayedRound, compiled_before: int) -> Round:
        return replace(played.round, late_compiles=self.record.late_compiles - compiled_before)

    def _judge(self, latest: Round) -> steady.Judgement:
        return steady.judge([*self.record.rounds, latest], self._config.warmup.tolerance_percent)

    def _report(self, played: PlayedRound, judgement: steady.Judgement, learned: Learned) -> None:
        number = self.record.played
        log.info("boot %s: round %d: %s", self.boot_id, number, judgement.why)
        if played.problems:
            first = played.problems[0]
            answered = any(problem.answered for problem in played.problems)
            self._tell(lifecycle.RequestsFailed(self.boot_id, first.text, answered))
            return
        self._tell(lifecycle.RoundPlayed(self.boot_id, judgement.why))
        if judgement.settled:
            evidence = Evidence(number, learned.first_token, self._steady())
            endpoint = self.record.plan.buckets[0].endpoint
            self.record.memory = WarmMemory(self.boot_id, evidence, endpoint, learned.served.model)
            self._tell(lifecycle.Settled(self.boot_id, evidence))

    def _steady(self) -> float:
        """Of single streaming requests: what a user of an idle engine sees. Seconds."""
        buckets = self.record.plan.buckets
        lowest = min(bucket.concurrency for bucket in buckets)
        return median(
            steady.steady_first_token(self.record.rounds, bucket.name)
            for bucket in buckets
            if bucket.stream == buckets[0].stream and bucket.concurrency == lowest
        )

    async def _ask(self, endpoint: Endpoint, body: Mapping[str, Any]) -> Reply:
        return await self._engine.generate(endpoint, body, self._request_seconds, self._token)

    def _token(self) -> None:
        self._tell(lifecycle.TokenSeen(self.boot_id, time.monotonic()))

    def _over_budget(self) -> bool:
        return self.record.played >= self._config.warmup.max_rounds

    async def _watch(self) -> None:
        memory = self.record.memory
        if memory is None:
            raise RuntimeError(f"boot {self.boot_id} is watched before it was proven warm")
        probe = Canary(self._engine, memory.endpoint, memory.model)
        while True:
            failed = self.record.canary_failures
            period = self._config.warmup.canary_period_seconds
            await asyncio.sleep(min(canary.RETRY_SECONDS, period) if failed else period)
            self._note_canary(await probe.check())

    def _note_canary(self, problem: str) -> None:
        if not problem:
            self.record.canary_failures = 0
            self._tell(lifecycle.CanaryLives(self.boot_id))
            return
        self.record.canary_failures += 1
        log.warning("boot %s: %s", self.boot_id, problem)
        if self.record.canary_failures >= canary.FAILURES_TO_CLOSE:
            self._tell(lifecycle.CanaryDied(self.boot_id, problem))
