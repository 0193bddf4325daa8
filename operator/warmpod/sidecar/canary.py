"""One token now and then from a warm engine, because /health stays 200 on one that hangs."""

from dataclasses import dataclass

from warmpod.sidecar.engine import Engine, EngineError, EngineTimeoutError
from warmpod.sidecar.planning import Endpoint, plain_body

TIMEOUT_SECONDS = 10.0
RETRY_SECONDS = 1.0

# In a row, before the gate closes.
FAILURES_TO_CLOSE = 2

WORDS = 4

# What an engine answers whose queue is full.
OVERLOADED = (429, 503)


@dataclass(frozen=True, slots=True)
class Canary:
    engine: Engine
    endpoint: Endpoint
    model: str

    async def check(self) -> str:
        """What is wrong; empty when the engine lives.

        An engine that is too busy with users for the canary, but works, lives: closing its gate
        would take its load to the next one."""
        before = await self.engine.progress()
        body = plain_body(self.endpoint, self.model, WORDS, answer_tokens=1, stream=False)
        try:
            await self.engine.generate(self.endpoint, body, TIMEOUT_SECONDS)
        except EngineError as error:
            may_be_busy = isinstance(error, EngineTimeoutError) or error.status in OVERLOADED
            if may_be_busy and await self._progressed_since(before):
                return ""
            return f"canary: {error}"
        return ""

    async def _progressed_since(self, before: float | None) -> bool:
        after = await self.engine.progress()
        return before is not None and after is not None and after > before
