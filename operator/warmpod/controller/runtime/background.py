"""Tasks without which the operator's process must not go on."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from warmpod.controller.apiserver.lease import LeaseLost

logger = logging.getLogger(__name__)


class Background:
    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        task.add_done_callback(_end_of_process)
        self._tasks.append(task)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _end_of_process(task: asyncio.Task[None]) -> None:
    """At once and without any cleaning up: a successor may hold the Lease already, and whatever
    this process would still write would be written by two."""
    if task.cancelled():
        return
    error = task.exception()
    if isinstance(error, LeaseLost):
        logger.critical("%s; ending the process", error)
    else:
        logger.critical("a part of the operator ended; ending the process", exc_info=error)
    logging.shutdown()
    os._exit(1)
