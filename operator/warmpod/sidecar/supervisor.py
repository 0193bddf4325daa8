"""Joins what the launcher tells, what the exercise of the current boot tells, and the gate."""

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

from warmpod import reasons
from warmpod.podstatus import ConditionReporter, Wish
from warmpod.protocol import EVENTS_FILE, GATE_CLOSED_FILE, STOPPING_FILE
from warmpod.sidecar import lifecycle
from warmpod.sidecar.boots import (
    Boot,
    EventFollower,
    LauncherEvent,
    boot_ended,
    lock_held,
)
from warmpod.sidecar.config import SidecarConfig
from warmpod.sidecar.culprits import Culprits
from warmpod.sidecar.engine import Engine
from warmpod.sidecar.exercise import Exercise, ask_to_end
from warmpod.sidecar.gate import Gate
from warmpod.sidecar.launcher_events import lifecycle_event
from warmpod.sidecar.lifecycle import Policy, Situation, Verdict
from warmpod.sidecar.memory import WarmMemory, recall, remember
from warmpod.sidecar.metrics import Metrics
from warmpod.sidecar.orders import Orders
from warmpod.sidecar.peers import Peers
from warmpod.sidecar.planning import plan_document
from warmpod.sidecar.record import Record
from warmpod.sidecar.status import status_page
from warmpod.sidecar.steady import bucket_figures
from warmpod.sidecar.timeline import Played, Timeline

log = logging.getLogger(__name__)

# Between looks at the run directory. The end of a boot is not polled for.
POLL_SECONDS = 0.1

# Endings that nobody asked for, in the launcher's words.
DIED = ("exited", "engine-process-died")

# Names of the engine's counters.
PREFIX_CACHE = ("prefix_cache_hits", "prefix_cache_queries")

# The launcher's pre-stop waits a little longer than this for our answer, in seconds.
REPORT_BEFORE_STOP_SECONDS = 4.0
REPORT_BEFORE_EXIT_SECONDS = 1.0


class Supervisor:
    def __init__(
        self,
        config: SidecarConfig,
        engine: Engine,
        warm: ConditionReporter,
        startup: ConditionReporter,
        peers: Peers,
        metrics: Metrics,
    ) -> None:
        self._config = config
        self._engine = engine
        self._warm = warm
        self._startup = startup
        self._peers = peers
        self._policy = Policy(
            stall_seconds=config.warmup.stall_seconds,
            max_rounds=config.warmup.max_rounds,
            on_failure=config.warmup.on_failure,
            max_restarts=config.warmup.max_restarts,
        )
        self._metrics = metrics
        self._follower = EventFollower(config.run_dir / EVENTS_FILE)
        self._timeline = Timeline()
        self._culprits = Culprits()
        self._situation = Situation()
        self._exercise: Exercise | None = None
        self._boot_tasks: list[asyncio.Task[None]] = []
        self._stop_answered = False
        self._cannot_end = ""
        self._earlier: WarmMemory | None = None
        self.gate = Gate(warm, self._metrics.gate_changed)

    async def run(self) -> None:
        if not self._stopping_wanted():
            self._forget_stop()
        self._earlier = recall(self._config.run_dir)
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._look(tasks)
                await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """Close the gate because this process ends."""
        self.gate.apply(Verdict(False, reasons.STOPPING, "the sidecar is being stopped"))
        await self._warm.delivered(REPORT_BEFORE_EXIT_SECONDS)

    def status(self) -> dict[str, Any]:
        current = self._situation.current
        boot = current.boot.id if current else None
        replay = self._exercise.orders.replay_state() if self._exercise else {}
        return status_page(self.gate.verdict, boot, self._record(), replay)

    def plan(self) -> dict[str, Any]:
        return plan_document(self._record().plan)

    @property
    def orders(self) -> Orders | None:
        """Of the present boot; None before there is one."""
        return self._exercise.orders if self._exercise else None

    async def render_metrics(self) -> bytes:
        record = self._record()
        counters = await self._engine.counters()
        hits, queries = (counters.get(name, 0.0) for name in PREFIX_CACHE)
        self._metrics.prefix_cache(hits, queries)
        errors = self._warm.errors + self._startup.errors
        return self._metrics.render(record, errors)

    def _record(self) -> Record:
        return self._exercise.record if self._exercise else Record()

    def _look(self, tasks: asyncio.TaskGroup) -> None:
        """Take in all news before acting on it: only the boot that is left counts."""
        for event in self._follower.read_new():
            try:
                self._take(event)
            except (KeyError, TypeError, ValueError) as error:
                # The engine shares the directory; it would be read again after each restart.
                log.error("the launcher's event %s is not understood: %r", event.name, error)
        stopping = self._stopping_wanted()
        self._advance(lifecycle.StoppingSeen(stopping))
        self._follow_current_boot(tasks)
        self._apply()
        self._answer_stop(tasks, stopping)

    def _take(self, event: LauncherEvent) -> None:
        self._timeline.note(event)
        if event.name == "launcher-started":
            self._metrics.launcher_started(event.fields.get("gpus"))
        self._count(event)
        warm_before = self._earlier.boot if self._earlier else None
        news = lifecycle_event(event, self._config.run_dir, warm_before, time.monotonic())
        if news is not None:
            self._advance(self._with_bucket(news))

    def _with_bucket(self, news: lifecycle.Event) -> lifecycle.Event:
        """The message about a boot that died in its warm-up names what was played."""
        playing = self._record().playing
        if isinstance(news, lifecycle.BootEnded) and playing and self._exercise_of(news.boot_id):
            return replace(news, how=f"{news.how}, while warm-up played {playing}")
        return news

    def _count(self, event: LauncherEvent) -> None:
        if not self._exercise_of(event.boot):
            return
        match event.name:
            case "late-compile":
                self._record().late_compiles += 1
            case "cache-grew":
                self._record().cache_growth += 1
            case "boot-ended" if event.fields.get("cause") in DIED:
                self._culprits.boot_died(event.boot, self._record())
            case "slept":
                self._note_memory(event)

    def _note_memory(self, event: LauncherEvent) -> None:
        if self._exercise is not None:
            freed, held = (float(event.fields[name]) for name in ("freed_gib", "held_gib"))
            self._exercise.memory_freed(freed, held)

    def _exercise_of(self, boot_id: str) -> bool:
        return self._exercise is not None and self._exercise.boot.id == boot_id

    def _follow_current_boot(self, tasks: asyncio.TaskGroup) -> None:
        current = self._situation.current
        if current is None or self._exercise_of(current.boot.id):
            return
        for task in self._boot_tasks:
            task.cancel()
        exercise = Exercise(
            current.boot, self._engine, self._config, self._peers, self._culprits, self._tell
        )
        earlier = self._earlier if current.resuming else None
        running = tasks.create_task(exercise.run(earlier))
        ending = tasks.create_task(self._await_end(current.boot, running))
        self._metrics.new_boot()
        self._exercise, self._boot_tasks = exercise, [running, ending]

    async def _await_end(self, boot: Boot, running: asyncio.Task[None]) -> None:
        await boot_ended(boot)
        self._tell(lifecycle.LockReleased(boot.id))
        running.cancel()

    def _tell(self, event: lifecycle.Event) -> None:
        match event:
            case lifecycle.HttpAnswered():
                self._timeline.mark("http", time.time())
            case lifecycle.TokenSeen():
                self._timeline.mark("first_token", time.time())
        self._advance(event)
        self._apply()

    def _apply(self) -> None:
        now = time.monotonic()
        self._act_on_failure(now)
        verdict = lifecycle.verdict(self._situation, now, self._policy)
        if verdict is not None and verdict.open and verdict != self.gate.verdict:
            verdict = self._still_alive(verdict, now)
        if verdict is None or verdict == self.gate.verdict:
            return
        self.gate.apply(verdict)
        if verdict.open:
            self._opened(verdict)

    def _act_on_failure(self, now: float) -> None:
        """What spec.warmup.onFailure says, once warm-up has failed."""
        current = self._situation.current
        if current is None or not lifecycle.failed(self._situation, now, self._policy):
            return
        closed = lifecycle.verdict(self._situation, now, self._policy)
        if closed is None:
            return
        because = f"{closed.reason}: {closed.message}"
        match self._policy.on_failure:
            case "Open" if lifecycle.may_open_unproven(self._situation):
                self._advance(lifecycle.BudgetSpent(current.boot.id, because))
            case "Restart" if lifecycle.may_restart(self._situation, self._policy):
                self._restart(current.boot.id, because)

    def _restart(self, boot_id: str, because: str) -> None:
        try:
            ask_to_end(self._config, boot_id, because)
        except OSError as error:
            if boot_id != self._cannot_end:  # it is tried again at each look
                log.error("boot %s cannot be ended: %r", boot_id, error)
            self._cannot_end = boot_id
            return
        self._advance(lifecycle.RestartAsked(boot_id, because))

    def _advance(self, event: lifecycle.Event) -> None:
        self._situation = lifecycle.advance(self._situation, event)

    def _still_alive(self, verdict: Verdict, now: float) -> Verdict | None:
        """The evidence is about a boot; look at its lock in the moment of opening."""
        current = self._situation.current
        if current is None or lock_held(current.boot):
            return verdict
        self._advance(lifecycle.LockReleased(current.boot.id))
        return lifecycle.verdict(self._situation, now, self._policy)

    def _opened(self, verdict: Verdict) -> None:
        current = self._situation.current
        memory = self._record().memory
        if current is None or (memory is not None and memory == self._earlier):
            return  # an earlier sidecar has reported this boot
        self._timeline.mark("gate", time.time())
        played = self._played()
        text = self._timeline.render(current.evidence, played)
        self._startup.want(Wish("True", reasons.RECORDED, text))
        self._metrics.started(text)
        if memory is not None and verdict.reason == reasons.WARM:
            self._metrics.warmed(memory.evidence, played.figures)
            self._remember(memory)

    def _played(self) -> Played:
        record = self._record()
        compared = record.comparison.numbers() if record.comparison else None
        return Played(len(record.plan.buckets), bucket_figures(record.rounds), compared)

    def _remember(self, memory: WarmMemory) -> None:
        try:
            remember(self._config.run_dir, memory, time.time())
        except OSError as error:
            log.error("a restarted sidecar will warm this boot up again: %r", error)

    def _stopping_wanted(self) -> bool:
        return (self._config.run_dir / STOPPING_FILE).exists()

    def _answer_stop(self, tasks: asyncio.TaskGroup, stopping: bool) -> None:
        if stopping == self._stop_answered:
            return
        self._stop_answered = stopping
        if not stopping:  # a new launcher in the same pod
            self._forget_stop()
            return
        for running in self._boot_tasks[:1]:
            running.cancel()  # our requests would hold up the drain
        tasks.create_task(self._confirm_closed())

    def _forget_stop(self) -> None:
        (self._config.run_dir / GATE_CLOSED_FILE).unlink(missing_ok=True)

    async def _confirm_closed(self) -> None:
        """Our own probe is closed already, so go on also when the API server is away."""
        if not await self._warm.delivered(REPORT_BEFORE_STOP_SECONDS):
            log.warning("stopping, and the API server does not know yet")
        # Empty: there is room for a name also where the engine has filled the run directory.
        (self._config.run_dir / GATE_CLOSED_FILE).touch()
