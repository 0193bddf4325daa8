"""Sends the requests of one boot's warm-up, and tells of every sign of life."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from warmpod.sidecar import lifecycle
from warmpod.sidecar.engine import Engine, Reply
from warmpod.sidecar.planning import Endpoint

# A first request may compile for many minutes. Cutting it loses nothing but its answer: the
# engine goes on compiling, and the next request waits for that.
REQUEST_SECONDS = 600.0


class Asker:
    """`tell` takes what happened; it is the only way out to the gate."""

    def __init__(
        self,
        boot_id: str,
        engine: Engine,
        stall_seconds: float,
        tell: Callable[[lifecycle.Event], None],
    ) -> None:
        self.timeout_seconds = max(REQUEST_SECONDS, 2.0 * stall_seconds)
        self._boot_id = boot_id
        self._engine = engine
        self._tell = tell

    async def ask(self, endpoint: Endpoint, body: Mapping[str, Any]) -> Reply:
        """Raises EngineError."""
        return await self._engine.generate(endpoint, body, self.timeout_seconds, self.token)

    async def document(self, endpoint: Endpoint, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The whole answer. Raises EngineError."""
        found = await self._engine.ask(endpoint, body, self.timeout_seconds)
        self.token()
        return found

    def token(self) -> None:
        self._tell(lifecycle.TokenSeen(self._boot_id, time.monotonic()))
