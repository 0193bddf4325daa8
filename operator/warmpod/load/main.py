"""The load generator's command line: one line of JSON, a Summary, on standard output."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from warmpod.load import bodies
from warmpod.load.drive import Load
from warmpod.load.summary import Summary, Window, summarise
from warmpod.resources.warmup_container import API_KEY_VARIABLE
from warmpod.sidecar.engine import Engine

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code. Requests that fail are counted and are no failure of it."""
    arguments = parser().parse_args(argv)
    try:
        requests = bodies.read(arguments.prompts.read_text(), arguments.model)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{arguments.prompts}: {error}\n")
        return USAGE_ERROR
    summary = asyncio.run(_measure(arguments, requests))
    sys.stdout.write(json.dumps(asdict(summary)) + "\n")
    return 0


async def _measure(arguments: argparse.Namespace, requests: Sequence[bodies.Request]) -> Summary:
    engine = Engine(arguments.url, os.environ.get(API_KEY_VARIABLE), tls_verify=False)
    try:
        load = Load(engine, requests, arguments.concurrency)
        samples = await load.run(arguments.ramp_seconds, arguments.seconds)
    finally:
        await engine.close()
    begin = arguments.ramp_seconds
    return summarise(samples, Window(begin, begin + arguments.seconds))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python3 -m warmpod.load.main", description=__doc__)
    made.add_argument("--url", required=True, help="of the engine, without a path")
    made.add_argument("--model", required=True, help="name that it is served under")
    made.add_argument("--prompts", type=Path, required=True, help="request bodies, one a line")
    made.add_argument("--concurrency", type=int, required=True, help="requests at a time")
    made.add_argument("--seconds", type=float, required=True, help="that are measured")
    made.add_argument("--ramp-seconds", type=float, required=True, help="before that")
    return made


if __name__ == "__main__":
    sys.exit(main())
