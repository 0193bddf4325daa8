"""Entry point: `warmpod-agent serve` (the default), `… fill` and `… cache`."""

from __future__ import annotations

import logging
import os
import sys

from warmpod.agent.cache import command as cache

log = logging.getLogger(__name__)

USAGE = "usage: warmpod-agent [serve|fill|cache]"


def main(arguments: list[str] | None = None) -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    code = run(sys.argv[1:] if arguments is None else arguments)
    logging.shutdown()
    # Without waiting for threads: one that asks a name server which is silent cannot be ended.
    os._exit(code)


def run(arguments: list[str]) -> int:
    """The exit status."""
    match arguments or ["serve"]:
        case ["cache", *rest]:
            return cache.run(rest)
        case ["serve" | "fill" as command]:
            # Not at the top: `cache` runs beside an agent, within the memory that is meant for one.
            from warmpod.agent import serving

            return serving.run(command)
        case _:
            log.error(USAGE)
            return 2


if __name__ == "__main__":
    main()
