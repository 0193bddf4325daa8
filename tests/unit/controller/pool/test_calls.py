"""Calls to sidecars run beside the reconciles."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from unit.controller.builders import NOW, engine
from unit.controller.fake_sidecars import FakeSidecars
from unit.controller.pool.test_decision import situation
from warmpod.controller.clients.sidecars import Load
from warmpod.controller.objects.views import Key, PodView
from warmpod.controller.pool import PoolPlan, decide
from warmpod.controller.pool.calls import REFUSED, Calls
from warmpod.controller.pool.decision import POLL, SLEEP_POLL
from warmpod.controller.pool.idle import Idle

KEY = ("models", "llama")
POD = engine("a").view()
NOTHING = decide(situation([]))


class Bench:
    def __init__(self) -> None:
        self.sidecars = FakeSidecars()
        self.idle = Idle()
        self.news: list[Key] = []
        self.time = 100.0
        self.calls = Calls(
            self.sidecars,
            self.idle,
            self.news.append,
            clock=lambda: self.time,
            now=lambda: NOW,
        )

    async def run(self, **plan: tuple[PodView, ...]) -> list[tuple[str, str]]:
        """The calls that this plan leads to."""
        before = len(self.sidecars.calls)
        found: PoolPlan = replace(NOTHING, **plan)  # type: ignore[arg-type]
        self.calls.start(KEY, found)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self.sidecars.calls[before:]


async def test_a_pod_is_called_again_but_not_at_once() -> None:
    bench = Bench()
    assert await bench.run(wake=(POD,)) == [("wake", "a")]
    assert await bench.run(wake=(POD,)) == []
    bench.time += POLL
    assert await bench.run(wake=(POD,)) == [("wake", "a")]


async def test_a_pod_that_refuses_to_sleep_is_left_alone_for_a_while() -> None:
    bench = Bench()
    bench.sidecars.refusing.add("a")
    await bench.run(sleep=(POD,))
    bench.time += SLEEP_POLL
    assert await bench.run(sleep=(POD,)) == []
    bench.time += REFUSED
    assert await bench.run(sleep=(POD,)) == [("sleep", "a")]


async def test_a_pod_that_refuses_to_wake_is_called_again() -> None:
    bench = Bench()
    bench.sidecars.refusing.add("a")
    await bench.run(wake=(POD,))
    bench.time += POLL
    assert await bench.run(wake=(POD,)) == [("wake", "a")]


async def test_what_pods_say_is_remembered_while_they_are_asked() -> None:
    bench = Bench()
    bench.sidecars.loads["a"] = Load(0, 0)
    await bench.run(ask=(POD,))
    assert bench.idle.of(KEY) == {"uid-a": NOW}
    assert bench.news == [KEY]
    bench.time += POLL
    await bench.run(ask=(POD,))
    assert bench.news == [KEY], "that is no news"
    bench.sidecars.loads["a"] = Load(1, 0)
    bench.time += POLL
    await bench.run(ask=(POD,))
    assert bench.idle.of(KEY) == {}


async def test_what_is_not_asked_any_more_is_not_known() -> None:
    bench = Bench()
    bench.sidecars.loads["a"] = Load(0, 0)
    await bench.run(ask=(POD,))
    await bench.run()
    assert bench.idle.of(KEY) == {}


async def test_a_pod_that_gives_no_answer_is_not_idle() -> None:
    bench = Bench()
    await bench.run(ask=(POD,))
    assert bench.idle.of(KEY) == {}


async def test_a_pod_that_hangs_keeps_nobody_waiting() -> None:
    class Hanging(FakeSidecars):
        async def wake(self, pod: PodView) -> None:
            self.calls.append(("wake", pod.meta.name))
            await asyncio.Event().wait()

    bench = Bench()
    bench.sidecars = hanging = Hanging()
    bench.calls = Calls(hanging, bench.idle, bench.news.append, clock=lambda: bench.time)
    assert await bench.run(wake=(POD,)) == [("wake", "a")]
    bench.time += 10 * POLL
    assert await bench.run(wake=(POD,)) == [], "one call at a time"
    await bench.calls.close()
