"""What an agent does by its settings: `serve` on a node, or `fill` a pod's memory and end."""

from __future__ import annotations

import asyncio
import logging
import os

from warmpod.agent import fill
from warmpod.agent.config import AgentConfig, ConfigError
from warmpod.agent.service import Service
from warmpod.agent.sources.lookup import SourceReplaced
from warmpod.podstatus import OwnPod, PodStatusError

log = logging.getLogger(__name__)


def run(command: str) -> int:
    """`serve` or `fill`; the exit status."""
    try:
        config = AgentConfig.from_environment(os.environ)
        if command == "fill":
            return fill.run(config)
        asyncio.run(_serve(config))
    except (ConfigError, PodStatusError, SourceReplaced) as error:
        log.error("%s", error)
        return 1
    return 0


async def _serve(config: AgentConfig) -> None:
    await Service(config, OwnPod.from_environment(field_manager="warmpod-agent")).run()
