"""The queue under fake time, and the workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from warmpod.controller.runtime.workqueue import (
    BACKOFF_MAX,
    RetryLater,
    Work,
    WorkQueue,
    run_worker,
)


class FakeTimer:
    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeTime:
    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[FakeTimer] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.now + delay, callback)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [t for t in self.timers if t.due <= self.now and not t.cancelled]
        self.timers = [t for t in self.timers if t not in due]
        for timer in due:
            timer.callback()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def queue(time: FakeTime) -> WorkQueue[str]:
    return WorkQueue(time.call_later, clock=lambda: time.now, jitter=lambda: 1.0)


async def take(queue: WorkQueue[str]) -> str:
    return await asyncio.wait_for(queue.get(), 1)


async def test_keys_come_in_order_and_once(queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert [await take(queue), await take(queue)] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_is_never_in_two_hands(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await take(queue)
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert len(queue) == 1
    await take(queue)
    queue.done("a")
    assert len(queue) == 0


async def test_get_waits_for_a_key(queue: WorkQueue[str]) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add("a")
    assert await asyncio.wait_for(waiting, 1) == "a"


async def test_several_waiters_get_one_key_each(queue: WorkQueue[str]) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in ("a", "b", "c"):
        queue.add(key)
    assert sorted(await asyncio.wait_for(asyncio.gather(*waiting), 1)) == ["a", "b", "c"]


def test_the_earliest_time_counts(queue: WorkQueue[str], time: FakeTime) -> None:
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    queue.add_after("a", 5)
    time.advance(5)
    assert len(queue) == 1
    time.advance(30)
    assert len(queue) == 1


async def test_who_takes_a_key_voids_its_timers(queue: WorkQueue[str], time: FakeTime) -> None:
    queue.add_after("a", 10)
    queue.add("a")
    await take(queue)
    queue.done("a")
    time.advance(60)
    assert len(queue) == 0


def test_back_off_doubles_to_a_bound_and_is_forgotten(queue: WorkQueue[str]) -> None:
    delays = [queue.retry("a") for _ in range(12)]
    assert delays[:4] == [1, 2, 4, 8]
    assert delays[-1] == BACKOFF_MAX
    assert queue.retry("b") == 1
    queue.succeeded("a")
    assert queue.retry("a") == 1


def test_back_off_is_spread(time: FakeTime) -> None:
    low: WorkQueue[str] = WorkQueue(time.call_later, jitter=lambda: 0.0)
    assert [low.retry("a") for _ in range(3)] == [0.5, 1, 2]


def test_a_key_that_fails_for_ever_stays_at_the_bound(queue: WorkQueue[str]) -> None:
    for _ in range(5000):
        last = queue.retry("a")
    assert last == BACKOFF_MAX


def test_forget_cancels(queue: WorkQueue[str], time: FakeTime) -> None:
    queue.add_after("a", 1)
    queue.forget("a")
    time.advance(5)
    assert len(queue) == 0


@asynccontextmanager
async def working(
    queue: WorkQueue[str], work: Work[str], workers: int = 2
) -> AsyncIterator[list[tuple[str, BaseException | None]]]:
    finished: list[tuple[str, BaseException | None]] = []
    tasks = [
        asyncio.create_task(run_worker(queue, work, lambda k, _, e: finished.append((k, e))))
        for _ in range(workers)
    ]
    yield finished
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came true")


async def test_what_one_key_raises_stays_with_it(queue: WorkQueue[str], time: FakeTime) -> None:
    calls: list[str] = []

    async def work(key: str) -> float | None:
        calls.append(key)
        if key == "bad":
            raise RuntimeError("boom")
        return None

    async with working(queue, work) as finished:
        for key in ("bad", "one", "two"):
            queue.add(key)
        await until(lambda: len(finished) == 3)
        assert {key for key, error in finished if error is not None} == {"bad"}
        assert queue.failing == 1
        time.advance(1)
        await until(lambda: calls.count("bad") == 2)
        time.advance(1)
        assert calls.count("bad") == 2, "the back-off did not grow"
        time.advance(1)
        await until(lambda: calls.count("bad") == 3)


async def test_a_slow_key_does_not_hold_the_others(queue: WorkQueue[str]) -> None:
    release = asyncio.Event()

    async def work(key: str) -> float | None:
        if key == "slow":
            await release.wait()
        return None

    async with working(queue, work) as finished:
        for key in ("slow", "one", "two", "three"):
            queue.add(key)
        await until(lambda: len(finished) == 3)
        release.set()
        await until(lambda: len(finished) == 4)


async def test_retry_later_is_no_failure(queue: WorkQueue[str], time: FakeTime) -> None:
    async def work(key: str) -> float | None:
        raise RetryLater(7, "too many requests")

    async with working(queue, work) as finished:
        queue.add("a")
        await until(lambda: len(finished) == 1)
        assert finished == [("a", None)]
        time.advance(6)
        assert len(queue) == 0
        time.advance(1)
        await until(lambda: len(finished) == 2)


async def test_work_says_when_to_look_again(queue: WorkQueue[str], time: FakeTime) -> None:
    async def work(key: str) -> float | None:
        return 15

    async with working(queue, work) as finished:
        queue.add("a")
        await until(lambda: len(finished) == 1)
        time.advance(15)
        await until(lambda: len(finished) == 2)
