"""Runs the process that computes forecasts."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

logger = logging.getLogger(__name__)

#: Seconds: to load the library, and for each series.
START_SECONDS = 60.0
FIT_SECONDS = 30.0
#: Bytes of a line: a few hundred numbers.
LONGEST_LINE = 1_000_000
#: One thread: the work is small, and each thread of the numerical libraries reserves memory.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
COMMAND = (sys.executable, "-m", "warmpod.controller.forecasting.child")


@dataclass(frozen=True)
class Task:
    values: list[float]
    season: int
    steps: int


@dataclass(frozen=True)
class Failed:
    why: str


Answer = list[float] | Failed


async def compute(
    tasks: Mapping[str, Task],
    *,
    command: tuple[str, ...] = COMMAND,
    start_seconds: float = START_SECONDS,
    fit_seconds: float = FIT_SECONDS,
) -> dict[str, Answer]:
    """An answer for each task, whatever becomes of the process."""
    found: dict[str, Answer] = {}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **_ENVIRONMENT},
            limit=LONGEST_LINE,
        )
    except OSError as error:
        return dict.fromkeys(tasks, Failed(f"the process did not start: {error}"))
    why = "the process ended early"
    try:
        async with asyncio.timeout(start_seconds + fit_seconds * len(tasks)):
            await _converse(process, tasks, found)
            await process.wait()
    except TimeoutError:
        why = "it took too long"
    except (OSError, ValueError, TypeError, LookupError) as error:
        why = f"{type(error).__name__}: {error}"
    finally:
        await _end(process)
    return {name: found.get(name, Failed(why)) for name in tasks}


async def _converse(
    process: asyncio.subprocess.Process, tasks: Mapping[str, Task], found: dict[str, Answer]
) -> None:
    """One series at a time, so that neither side fills a pipe that nobody reads."""
    if process.stdin is None or process.stdout is None:
        return
    for name, task in tasks.items():
        asked = {"id": name, "values": task.values, "season": task.season, "steps": task.steps}
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            return
        answer = json.loads(line)
        found[name] = Failed(answer["error"]) if "error" in answer else answer["forecast"]
    process.stdin.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()
