"""Answers from memory to what somebody else must be asked, so that no worker waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from warmpod.controller.objects.views import Key

Q = TypeVar("Q", bound=Hashable)
A = TypeVar("A")

#: Answers that are remembered.
REMEMBERED = 1000
#: Questions that are under way at a time.
AT_ONCE = 32

logger = logging.getLogger(__name__)


class Answers(Generic[Q, A]):
    """Asks in the background and tells those who wanted to know."""

    def __init__(
        self,
        ask: Callable[[Q], Awaitable[A]],
        notify: Callable[[Key], None],
        *,
        seconds: Callable[[A], float],
        failed: Callable[[Q, Exception], A],
        outdated: Callable[[A], A | None] = lambda answer: answer,
        remembered: int = REMEMBERED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: how long an answer is believed. `failed`: the answer where `ask` raised, which
        it is not expected to. `outdated`: what an answer is worth while it is asked for again."""
        self._ask = ask
        self._notify = notify
        self._seconds = seconds
        self._failed = failed
        self._outdated = outdated
        self._remembered = remembered
        self._clock = clock
        self._answers: OrderedDict[Q, tuple[float, A]] = OrderedDict()
        self._asking: dict[Q, tuple[asyncio.Task[None], set[Key]]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    def lookup(self, question: Q, key: Key) -> A | None:
        """The answer, or None while it is being asked for; then `key` is notified of it."""
        known = self._answers.get(question)
        if known is not None and self._clock() < known[0]:
            return known[1]
        if question in self._asking:
            self._asking[question][1].add(key)
        else:
            self._asking[question] = (asyncio.create_task(self._look_up(question)), {key})
        return None if known is None else self._outdated(known[1])

    async def close(self) -> None:
        tasks = [task for task, _ in self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, question: Q) -> None:
        try:
            async with self._room:
                answer = await self._ask(question)
        except Exception as error:
            # Without an answer each notified WarmModel would ask again at once.
            logger.exception("%s", question)
            answer = self._failed(question, error)
        self._remember(question, answer)
        _, waiting = self._asking.pop(question)
        for key in waiting:
            self._notify(key)

    def _remember(self, question: Q, answer: A) -> None:
        self._answers[question] = (self._clock() + self._seconds(answer), answer)
        self._answers.move_to_end(question)
        while len(self._answers) > self._remembered:
            self._answers.popitem(last=False)
