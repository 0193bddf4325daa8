"""Runs the real agent as a process that can be killed at any moment."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from forking import end, fork

from support.pod_api import IDENTITY
from warmpod.agent import keeper, service
from warmpod.agent.config import AgentConfig, WeightSet
from warmpod.agent.copies import nodecopy
from warmpod.agent.progress import Progress
from warmpod.agent.service import Service
from warmpod.podstatus import OwnPod
from warmpod.weights import hashing

# Small pieces and a little rest after each, so that a few megabytes take long enough to be
# killed at many different moments.
PIECE_BYTES = 32 * 1024
REST_SECONDS = 0.004
# A minute and a quarter of an hour, for tests.
TEND_SECONDS = 0.2
STALE_SECONDS = 1.0


@dataclass(frozen=True)
class Surroundings:
    """Where the agent reports to, with which token."""

    api_url: str
    account: Path


class Agent:
    def __init__(self, config: AgentConfig, surroundings: Surroundings) -> None:
        self._process = fork(_serve, config, surroundings)

    async def end(self, number: signal.Signals) -> None:
        """Send a signal and wait for the end."""
        await asyncio.to_thread(end, self._process, number)

    async def ended(self) -> int | None:
        """Wait until it ends by itself, and give its exit code; None where it does not."""
        await asyncio.to_thread(self._process.join, 20)
        return self._process.exitcode


def _serve(config: AgentConfig, surroundings: Surroundings) -> None:
    hashing.PIECE_BYTES = PIECE_BYTES
    keeper.SHOWN_SECONDS = 0.0
    service.TEND_SECONDS = TEND_SECONDS
    nodecopy.STALE_SECONDS = STALE_SECONDS
    watch = Progress.watch

    def slowly(progress: Progress, count: int) -> None:
        progress.pause(REST_SECONDS)
        watch(progress, count)

    Progress.watch = slowly  # type: ignore[method-assign]
    pod = OwnPod(IDENTITY, surroundings.api_url, surroundings.account, "warmpod-agent")
    sets = tuple(_mounted(weights) for weights in config.sets)
    asyncio.run(Service(replace(config, sets=sets), pod).run())


def _mounted(weights: WeightSet) -> WeightSet:
    """With the source as a container has it: a directory, whatever becomes of its name."""
    if weights.lookup is None:
        return weights
    directory = os.open(weights.source, os.O_RDONLY | os.O_DIRECTORY)
    return replace(weights, source=Path(f"/proc/self/fd/{directory}"))
