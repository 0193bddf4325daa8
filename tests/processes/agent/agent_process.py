"""Runs the real agent as a process that can be killed at any moment."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from support.pod_api import IDENTITY
from warmpod.agent import keeper
from warmpod.agent.config import AgentConfig
from warmpod.agent.progress import Progress
from warmpod.agent.service import Service
from warmpod.podstatus import OwnPod
from warmpod.weights import hashing

# These are imported once, so that an agent starts within milliseconds.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__, "requests"])

# Small pieces and a little rest after each, so that a few megabytes take long enough to be
# killed at many different moments.
PIECE_BYTES = 32 * 1024
REST_SECONDS = 0.004


@dataclass(frozen=True)
class Surroundings:
    """Where the agent reports to, with which token."""

    api_url: str
    account: Path


class Agent:
    def __init__(self, config: AgentConfig, surroundings: Surroundings) -> None:
        self._process: ForkServerProcess = _PROCESSES.Process(
            target=_serve, args=(config, surroundings), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        pid = self._process.pid
        if pid is None:
            raise RuntimeError("the agent was not started")
        return pid

    async def end(self, number: signal.Signals) -> None:
        """Send a signal and wait for the end."""
        if self._process.is_alive():
            os.kill(self.pid, number)
        await asyncio.to_thread(self._process.join, 30)
        assert not self._process.is_alive()


def _serve(config: AgentConfig, surroundings: Surroundings) -> None:
    hashing.PIECE_BYTES = PIECE_BYTES
    keeper.SHOWN_SECONDS = 0.0
    watch = Progress.watch

    def slowly(progress: Progress, count: int) -> None:
        progress.pause(REST_SECONDS)
        watch(progress, count)

    Progress.watch = slowly  # type: ignore[method-assign]
    pod = OwnPod(IDENTITY, surroundings.api_url, surroundings.account, "warmpod-agent")
    asyncio.run(Service(config, pod).run())
