"""Waiting for a condition inside the event loop."""

import asyncio
import time
from collections.abc import Callable

LIMIT_SECONDS = 20.0


async def until(
    condition: Callable[[], object],
    what: Callable[[], object] = lambda: "condition",
    limit_seconds: float = LIMIT_SECONDS,
) -> None:
    """Return when `condition` holds; fail with `what()` after a generous limit."""
    deadline = time.monotonic() + limit_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_seconds} s: {what()}")
        await asyncio.sleep(0.005)
