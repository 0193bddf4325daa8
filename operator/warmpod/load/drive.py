"""Keeps a number of requests running for a time: a closed loop, as of so many users."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence

from warmpod.load.bodies import Request
from warmpod.load.summary import Sample
from warmpod.sidecar.engine import Engine, EngineError

#: Seconds for one answer.
ANSWER_SECONDS = 300.0

#: Seconds before a user whose request failed sends the next one.
PAUSE_SECONDS = 0.2


class Load:
    """`users` of them ask one after another, and take the requests in turn."""

    def __init__(self, engine: Engine, requests: Sequence[Request], users: int) -> None:
        self._engine = engine
        self._requests: Iterator[Request] = itertools.cycle(requests)
        self._users = users
        self._samples: list[Sample] = []
        self._began = 0.0

    async def run(self, ramp_seconds: float, seconds: float) -> list[Sample]:
        """Users begin one by one in the first half of the ramp: their requests are not to wait for
        each other because all came at once. Returns when the last answer has ended."""
        self._began = time.monotonic()
        end = ramp_seconds + seconds
        step = ramp_seconds / 2 / self._users
        await asyncio.gather(*(self._user(number * step, end) for number in range(self._users)))
        return self._samples

    async def _user(self, begin: float, end: float) -> None:
        await asyncio.sleep(begin)
        while self._now() < end:
            sample = await self._ask(next(self._requests))
            self._samples.append(sample)
            if sample.error:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self, request: Request) -> Sample:
        started = self._now()
        try:
            reply = await self._engine.generate(request.endpoint, request.body, ANSWER_SECONDS)
        except EngineError as error:
            return Sample(started, self._now(), error=str(error))
        tokens = reply.answer.completion_tokens or 0
        return Sample(started, started + reply.total, reply.first_token, tokens)

    def _now(self) -> float:
        return time.monotonic() - self._began
