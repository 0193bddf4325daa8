"""What a living boot got to serve since it was proven warm: adapters and prompts.

Only the new buckets are played, and the gate stays open: the others are as warm as before."""

import logging
from dataclasses import replace

from warmpod.sidecar.asking import Asker
from warmpod.sidecar.config import SidecarConfig
from warmpod.sidecar.engine import Engine, EngineError
from warmpod.sidecar.learn import adapters_of
from warmpod.sidecar.planning import Plan, Served
from warmpod.sidecar.record import Record
from warmpod.sidecar.serving import present_plan, what_is_served
from warmpod.sidecar.settling import Settling

log = logging.getLogger(__name__)


class News:
    def __init__(self, engine: Engine, config: SidecarConfig, asker: Asker, record: Record) -> None:
        self._engine = engine
        self._config = config
        self._asker = asker
        self._record = record

    async def exercise(self) -> None:
        """Look for something new, and play it."""
        try:
            plan = await self._present_plan()
        except EngineError as error:
            log.debug("what the engine serves is not known: %s", error)
            return
        known = self._record.plan
        if plan.names == known.names:
            return
        fresh = plan.without(known.names | self._record.proven)
        self._record.proven = frozenset()
        self._record.plan = plan
        if fresh.buckets:
            self._record.added = [bucket.name for bucket in fresh.buckets]
            log.info("new: %s", ", ".join(self._record.added))
            await self._settle(fresh)

    async def play_again(self) -> str:
        """Play what the boot was proven warm with; what went wrong, or nothing."""
        return await self._settle(self._record.plan)

    async def prime_prefixes(self) -> None:
        await self._settle(self._record.plan.prefixes())

    async def _present_plan(self) -> Plan:
        served = await self._served()
        adapters = adapters_of(await self._engine.models(), served.model)
        plan = present_plan(replace(served, adapters=adapters), self._config)
        self._record.left_out &= plan.names  # an adapter that is gone may come again
        return plan.without(self._record.left_out)

    async def _served(self) -> Served:
        if self._record.served is None:  # this sidecar took over a boot that was warm
            learned = await what_is_served(self._engine, self._config, self._asker, self._record)
            self._record.served = learned.served
        return self._record.served

    async def _settle(self, plan: Plan) -> str:
        if not plan.buckets:
            return ""
        warmup = self._config.warmup
        settling = Settling(plan, self._asker.ask, self._record, warmup)
        judgement = None
        while settling.played < warmup.max_rounds:
            buckets = settling.plan.buckets
            played, judgement = await settling.play()
            if judgement.settled:
                return ""
            if played.problems and settling.plan.buckets == buckets:
                self._record.note(f"after the gate opened: {played.problems[0].text}")
                return played.problems[0].text
        return judgement.why if judgement else ""
