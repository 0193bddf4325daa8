"""One token now and then from a warm engine, because /health stays 200 on one that hangs."""

from dataclasses import dataclass

from warmpod.sidecar.engine import Engine, EngineError, EngineTimeoutError
from warmpod.sidecar.planning import Endpoint, plain_body

TIMEOUT_SECONDS = 10.0
RETRY_SECONDS = 1.0

# In a row, before the gate closes.
FAILURES_TO_CLOSE = 2

# What an engine answers whose queue is full.
OVERLOADED = (429, 503)

WORDS = 4

# Tokens by which counters may still grow after our own canary was answered.
OWN_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Result:
    """`problem` is empty when the engine lives. `timed_out`: it said nothing at all."""

    problem: str = ""
    timed_out: bool = False


class Canary:
    """An engine that is too busy with users for the canary, but works, lives: closing its gate
    would take its load to the next one. One that was seen to work is not even asked."""

    def __init__(self, engine: Engine, endpoint: Endpoint, model: str) -> None:
        self._engine = engine
        self._endpoint = endpoint
        self._body = plain_body(endpoint, model, WORDS, answer_tokens=1, stream=False)
        self._tokens: float | None = None
        self.idle = False

    async def check(self) -> Result:
        """`idle` tells afterwards whether nobody but us had used the engine since the last call."""
        before = self._tokens
        now = await self._engine.progress()
        self.idle = before is not None and now is not None and now - before <= OWN_TOKENS
        if before is not None and now is not None and now - before > OWN_TOKENS:
            self._tokens = now
            return Result()
        result = await self._ask(now)
        self._tokens = await self._engine.progress()
        return result

    async def _ask(self, tokens: float | None) -> Result:
        try:
            await self._engine.generate(self._endpoint, self._body, TIMEOUT_SECONDS, canary=True)
        except EngineTimeoutError as error:
            busy = await self._progressed_since(tokens)
            return Result() if busy else Result(f"canary: {error}", timed_out=True)
        except EngineError as error:
            busy = error.status in OVERLOADED and await self._progressed_since(tokens)
            return Result() if busy else Result(f"canary: {error}")
        return Result()

    async def _progressed_since(self, before: float | None) -> bool:
        after = await self._engine.progress()
        return before is not None and after is not None and after > before
