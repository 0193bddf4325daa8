"""One boot in the sidecar's hands: exercised until it is warm, then watched."""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace

from warmpod.protocol import END_BOOT_FILE
from warmpod.sidecar import lifecycle, reference
from warmpod.sidecar.asking import Asker
from warmpod.sidecar.boots import Boot
from warmpod.sidecar.canary import Canary
from warmpod.sidecar.checks import changed_answer
from warmpod.sidecar.config import SidecarConfig
from warmpod.sidecar.culprits import Culprits
from warmpod.sidecar.engine import Engine, EngineError
from warmpod.sidecar.memory import WarmMemory, write_atomically
from warmpod.sidecar.orders import Orders
from warmpod.sidecar.peers import Peers
from warmpod.sidecar.power import Power
from warmpod.sidecar.record import Record
from warmpod.sidecar.sleep import SleepWatch
from warmpod.sidecar.sleeper import Sleeper
from warmpod.sidecar.warming import WarmUp
from warmpod.sidecar.watch import Watch

log = logging.getLogger(__name__)

# Large models take half of it. A reference that never starts must not keep the pod out.
REFERENCE_START_SECONDS = 3600.0


class Exercise:
    """`tell` takes what happened; it is the only way out to the gate."""

    def __init__(
        self,
        boot: Boot,
        engine: Engine,
        config: SidecarConfig,
        peers: Peers,
        culprits: Culprits,
        tell: Callable[[lifecycle.Event], None],
    ) -> None:
        config = _without(config, culprits)
        self.record = Record(notes=list(culprits.notes()))
        self.boot = boot
        self._engine = engine
        self._config = config
        self._peers = peers
        self._tell = tell
        self._asker = Asker(boot.id, engine, config.warmup.stall_seconds, tell)
        self._warm_up = WarmUp(boot.id, engine, config, self._asker, self.record, tell)
        power = Power(engine, config.run_dir)
        self._sleep = SleepWatch(boot.id, power, tell)
        self.orders = Orders(power, self._sleep, Sleeper(boot.id, power, self._sleep, tell))

    async def run(self, earlier: WarmMemory | None) -> None:
        """`earlier`: a sidecar before this one has proven the boot warm."""
        if self.boot.reference:
            await self._ask_reference()
            return
        async with asyncio.TaskGroup() as tasks:
            with self.orders.taken(tasks):
                tasks.create_task(self._sleep.run())
                if earlier is None or not await self._resume(earlier):
                    await self._warm_up.wait_for_http()
                    await self._warm_up.run(earlier)
                await self._watch()

    def memory_freed(self, freed_gib: float, held_gib: float) -> None:
        """The engine's log tells it when a worker falls asleep."""
        self._sleep.memory_freed(freed_gib, held_gib)

    async def _resume(self, earlier: WarmMemory) -> bool:
        await self._sleep.look()
        await self._sleep.awake()
        result = await Canary(self._engine, earlier.endpoint, earlier.model).check()
        if result.problem:
            log.warning(
                "boot %s was warm, but is warmed up again: %s", self.boot.id, result.problem
            )
            self._tell(lifecycle.NotResumed(self.boot.id))
            await self._sleep.suppose_woken()
            return False
        changed = await changed_answer(self._asker, self._config.warmup.golden, earlier)
        if changed:
            log.warning("boot %s: %s", self.boot.id, changed)
            await self._sleep.suppose_woken()
            self._tell(lifecycle.AnswersChecked(self.boot.id, changed))
        self.record.memory, self.record.proven = earlier, frozenset(earlier.buckets)
        self._tell(lifecycle.Settled(self.boot.id, earlier.evidence))
        return True

    async def _watch(self) -> None:
        memory = self.record.memory
        if memory is None:
            raise RuntimeError(f"boot {self.boot.id} is watched before it was proven warm")
        watch = Watch(
            self.boot.id,
            self._engine,
            self._config,
            self._asker,
            self.record,
            memory,
            self._peers,
            self._sleep,
            self._tell,
        )
        self.orders.replay = watch.play_again
        await watch.run()

    async def _ask_reference(self) -> None:
        """Whatever comes of it, the engine's own settings have their turn next."""
        why = "its answers were recorded"
        try:
            async with asyncio.timeout(REFERENCE_START_SECONDS):
                await self._warm_up.wait_for_http()
            async with asyncio.timeout(self._asker.timeout_seconds):
                await self._record_answers()
        except (TimeoutError, EngineError, ValueError, OSError) as error:
            log.error("spec.warmup.compare: no reference answers: %r", error)
            why = "it gave no answers to compare with"
        ask_to_end(self._config, self.boot.id, why)

    async def _record_answers(self) -> None:
        compare = self._config.warmup.compare
        if compare is None:
            return
        served = (await self._warm_up.learn()).served
        answers = await reference.answers(
            self._asker, served.endpoints[0], served.model, compare.samples
        )
        reference.keep(self._config.run_dir, answers)


def _without(config: SidecarConfig, culprits: Culprits) -> SidecarConfig:
    skip = (*config.warmup.skip, *culprits.buckets)
    return replace(config, warmup=config.warmup.model_copy(update={"skip": skip}))


def ask_to_end(config: SidecarConfig, boot_id: str, why: str) -> None:
    """Have the launcher end a boot and start the next one."""
    text = json.dumps({"boot": boot_id, "why": why})
    write_atomically(config.run_dir / END_BOOT_FILE, text)
