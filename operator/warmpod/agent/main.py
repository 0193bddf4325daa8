"""Entry point: `warmpod-agent serve` (the default) and `warmpod-agent fill`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from warmpod.agent import fill
from warmpod.agent.config import AgentConfig, ConfigError
from warmpod.agent.lookup import SourceReplaced
from warmpod.agent.service import Service
from warmpod.podstatus import OwnPod, PodStatusError

log = logging.getLogger(__name__)

USAGE = "usage: warmpod-agent [serve|fill]"


def main(arguments: list[str] | None = None) -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    code = run(sys.argv[1:] if arguments is None else arguments)
    logging.shutdown()
    # Without waiting for threads: one that asks a name server which is silent cannot be ended.
    os._exit(code)


def run(arguments: list[str]) -> int:
    command = arguments[0] if arguments else "serve"
    if command not in ("serve", "fill") or len(arguments) > 1:
        log.error(USAGE)
        return 2
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


if __name__ == "__main__":
    main()
