"""The long-running agent: looks in a thread, HTTP and reports in the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time

from aiohttp import web

from warmpod.agent.config import AgentConfig, Medium
from warmpod.agent.image import ImageWeights
from warmpod.agent.keeper import Keeper, Weights
from warmpod.agent.lifecycle import Facts, Verdict, decide
from warmpod.agent.nodecopy import NodeCopy
from warmpod.agent.nodememory import NodeMemoryWeights
from warmpod.agent.progress import Cancelled, Progress
from warmpod.agent.server import make_application
from warmpod.podstatus import ConditionReporter, ConditionStatus, OwnPod, PodStatusError, Wish
from warmpod.protocol import RESIDENT_CONDITION

log = logging.getLogger(__name__)

SHOW_SECONDS = 0.2
# A model's earlier copy is kept for so long after the new one is complete: engines of the
# previous revision may start another boot from it while the rollout replaces them.
SUPERSEDED_SECONDS = 30 * 60
# How long the API server is asked whether the WarmModel is gone, well within the 30 s that the
# kubelet gives a pod to stop.
FAREWELL_SECONDS = 10.0
FAREWELL_RETRY_SECONDS = 1.0


class Service:
    def __init__(self, config: AgentConfig, pod: OwnPod) -> None:
        self._config = config
        self._pod = pod
        self._reporter = ConditionReporter(pod, RESIDENT_CONDITION)
        self._progress = Progress()
        self._copy: NodeCopy | None = None
        if config.medium is Medium.NODE_MEMORY:
            self._copy = NodeCopy(config.node_root, config.key, config.model_uid)
        weights: Weights
        if self._copy is not None:
            weights = NodeMemoryWeights(config.source, self._copy)
        else:
            weights = ImageWeights(config.source, config.state_dir)
        self._keeper = Keeper(config.medium, config.source, weights, self._progress)
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        runner = web.AppRunner(make_application(self._config, self._state), access_log=None)
        await runner.setup()
        try:
            # No host: both address families, whichever the pod has.
            await web.TCPSite(runner, port=self._config.port).start()
            await self._work()
            await self._say_farewell()
        finally:
            await runner.cleanup()
            await self._pod.close()

    def stop(self) -> None:
        self._stopping.set()
        self._progress.stop()

    def _state(self) -> tuple[Facts, Verdict, int]:
        facts = self._keeper.facts()
        verdict = decide(facts)
        if self._stopping.is_set():
            verdict = Verdict(False, verdict.reason, "the agent is stopping")
        return facts, verdict, self._keeper.reloads

    async def _work(self) -> None:
        """An agent that cannot report any more ends, and the kubelet starts the next one."""
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(self._reporter.run()), group.create_task(self._show())]
            try:
                await self._look_again_and_again()
            finally:
                self._progress.stop()  # the thread does not notice that nobody waits for it
                for task in helpers:
                    task.cancel()

    async def _look_again_and_again(self) -> None:
        superseded_until: float | None = None
        while not self._stopping.is_set():
            try:
                await asyncio.to_thread(self._keeper.look)
            except Cancelled:
                return
            if self._copy is not None and decide(self._keeper.facts()).ready:
                if superseded_until is None:
                    superseded_until = time.monotonic() + SUPERSEDED_SECONDS
                elif time.monotonic() > superseded_until:
                    await asyncio.to_thread(self._copy.drop_superseded)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._config.scrub_seconds)

    async def _show(self) -> None:
        shown: str | None = None
        while True:
            verdict = self._state()[1]
            if verdict.reason != shown:
                log.info("%s: %s", verdict.reason, verdict.message)
                shown = verdict.reason
            status: ConditionStatus = "True" if verdict.ready else "False"
            self._reporter.want(Wish(status, verdict.reason, verdict.message))
            await asyncio.sleep(SHOW_SECONDS)

    async def _say_farewell(self) -> None:
        """Free the node's memory when the WarmModel is gone; leave it to the next agent if not."""
        if self._copy is None:
            return
        if await self._warm_model_is_gone():
            log.info("WarmModel %s is gone, so its copy is given up", self._config.model)
            await asyncio.to_thread(self._copy.leave)
        else:
            log.info("the copy stays for the next agent of WarmModel %s", self._config.model)

    async def _warm_model_is_gone(self) -> bool:
        give_up_at = time.monotonic() + FAREWELL_SECONDS
        while True:
            try:
                return not await self._pod.warm_model_exists(self._config.model)
            except PodStatusError as error:
                log.warning("cannot tell whether the WarmModel is gone: %s", error)
                if time.monotonic() > give_up_at:
                    return False
                await asyncio.sleep(FAREWELL_RETRY_SECONDS)
