import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.pod_api import FakeApi, fake_api
from support.until import until
from warmpod.podstatus import ConditionReporter, Wish

WARM = "warmpod.io/Warm"


@asynccontextmanager
async def reporting(
    api: FakeApi, tmp_path: Path, reassert_seconds: float = 60.0
) -> AsyncIterator[ConditionReporter]:
    pod = api.own_pod(tmp_path)
    reporter = ConditionReporter(pod, WARM, reassert_seconds)
    task = asyncio.create_task(reporter.run())
    try:
        yield reporter
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pod.close()


async def test_newest_wish_wins_while_the_api_server_is_away(tmp_path: Path) -> None:
    async with fake_api() as api, reporting(api, tmp_path) as reporter:
        api.failing = True
        reporter.want(Wish("True", "Warm", ""))
        await until(lambda: api.refused >= 2)
        reporter.want(Wish("False", "EngineDied", "exit code 1"))
        assert not await reporter.delivered(0.05)
        api.failing = False
        assert await reporter.delivered(5)
        assert [patch["status"] for patch in api.patches] == ["False"]
        assert reporter.errors >= 2


async def test_a_wish_that_comes_during_a_slow_patch_is_sent_after_it(tmp_path: Path) -> None:
    async with fake_api() as api, reporting(api, tmp_path) as reporter:
        api.delay_seconds = 0.1
        reporter.want(Wish("True", "Warm", ""))
        await asyncio.sleep(0.03)
        reporter.want(Wish("False", "EngineDied", ""))
        assert await reporter.delivered(5)
        assert [patch["status"] for patch in api.patches] == ["True", "False"]


async def test_condition_is_said_again_with_the_same_transition_time(tmp_path: Path) -> None:
    async with fake_api() as api, reporting(api, tmp_path, 0.02) as reporter:
        reporter.want(Wish("True", "Warm", "a"))
        await until(lambda: len(api.patches) >= 3)
        assert len({patch["lastTransitionTime"] for patch in api.patches}) == 1


async def test_same_wish_is_not_sent_twice(tmp_path: Path) -> None:
    async with fake_api() as api, reporting(api, tmp_path) as reporter:
        reporter.want(Wish("True", "Warm", ""))
        assert await reporter.delivered(5)
        reporter.want(Wish("True", "Warm", ""))
        reporter.want(Wish("True", "Warm", "other"))
        assert await reporter.delivered(5)
        assert [patch["message"] for patch in api.patches] == ["", "other"]


async def test_it_ends_also_when_a_wish_comes_together_with_the_end(tmp_path: Path) -> None:
    async with fake_api() as api:
        pod = api.own_pod(tmp_path)
        reporter = ConditionReporter(pod, WARM)
        task = asyncio.create_task(reporter.run())
        reporter.want(Wish("True", "Warm", ""))
        assert await reporter.delivered(5)
        await asyncio.sleep(0.05)  # it waits for the next wish
        reporter.want(Wish("False", "Stopping", ""))
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done
        await pod.close()
