"""Waiting for a condition with a generous limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

POLL_SECONDS = 0.1


def wait_until(
    what: str,
    probe: Callable[[], Found],
    *,
    timeout_s: float,
    describe: Callable[[], object] | None = None,
    poll_s: float = POLL_SECONDS,
) -> Found:
    """The first true answer of `probe`; fails with `what` and `describe()` at the limit."""
    deadline = time.monotonic() + timeout_s
    while True:
        if found := probe():
            return found
        if time.monotonic() > deadline:
            state = f"; last seen: {describe()}" if describe else ""
            raise AssertionError(f"{what}: not within {timeout_s:.0f} s{state}")
        time.sleep(poll_s)


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Waits for something that a process of the test's own is about to do."""
    wait_until("the condition", condition, timeout_s=seconds, poll_s=0.01)
