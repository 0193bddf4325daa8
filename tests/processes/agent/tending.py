"""An agent's looks at a store of compiled code, and nothing else of it, in a process that can be
killed at each of its steps. A module of its own: it is imported by each process anew."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forking import end, fork

from support.until import until
from warmpod.agent.cache.store import CompileStore

# After each step, so that there are moments to be killed at.
REST_SECONDS = 0.0005


def _tend(root: Path, most_bytes: int, looked: Path) -> None:
    """`looked` is there from when it begins, and longer after each look."""
    store = CompileStore(root, most_bytes)
    looked.write_text("")

    def slowly(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            time.sleep(REST_SECONDS)
            return function(*args, **options)

        return call

    for name in ("open", "rename", "unlink", "rmdir", "fsync"):
        setattr(os, name, slowly(getattr(os, name)))
    while True:
        store.look()
        with looked.open("a") as file:
            file.write(".")


class Tending:
    """The process, from when it begins."""

    def __init__(self, root: Path, most_bytes: int, name: str = "looked") -> None:
        self._looked = root.parent / name
        self._looked.unlink(missing_ok=True)
        self._process = fork(_tend, root, most_bytes, self._looked)

    async def begun(self) -> Tending:
        await until(self._looked.exists, lambda: "no agent")
        return self

    async def has_looked(self) -> float:
        """Wait for the first look; what it took, in seconds."""
        began = time.monotonic()
        await until(lambda: self._looked.stat().st_size > 0, lambda: "no look")
        return time.monotonic() - began

    async def kill(self) -> None:
        await asyncio.to_thread(end, self._process, signal.SIGKILL)
