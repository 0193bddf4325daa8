"""Sleep at moments that are worse than others: whoever wakes is checked, and let in again."""

import asyncio
from typing import Any

import pytest

from processes.sidecar.harness import Stage
from support.until import until
from warmpod.sidecar import canary, lifecycle, sleep, sleeper, watch
from warmpod.sidecar.checks import changed_answer
from warmpod.sidecar.lifecycle import rules

DEVELOPMENT = {"VLLM_SERVER_DEV_MODE": "1"}


async def start(stage: Stage, **knobs: object) -> None:
    await stage.start_engine("--enable-sleep-mode", env=DEVELOPMENT, **knobs)
    stage.launcher.start_boot("b1")
    stage.start_sidecar()


async def test_engine_that_slept_in_its_warm_up_gets_warm(stage: Stage) -> None:
    await start(stage, first_seconds=0.5)
    await stage.reason("WarmingUp")
    await stage.post("/sleep?level=1")
    await stage.reason("Asleep")
    await stage.post("/wake_up")
    await stage.reason("Warm")
    assert await stage.readyz() == 200


async def test_sleep_while_answers_are_checked_has_them_checked_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleep, "POLL_SECONDS", 0.05)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(*of: Any) -> str:
        problem = await changed_answer(*of)
        asked.set()
        await go_on.wait()
        return problem

    monkeypatch.setattr(watch, "changed_answer", slowly)
    await start(stage)
    await stage.reason("Warm")
    for level in (1, 2):  # level 2 loses the weights, so that answers are wrong from then on
        await stage.post(f"/sleep?level={level}")
        await stage.reason("Asleep")
        await stage.post("/wake_up")
        await stage.reason("Waking")
        await asked.wait()
    go_on.set()
    await stage.reason("AnswerChanged")
    assert stage.warm_reasons().count("Warm") == 1


async def test_sidecar_that_restarts_does_not_open_on_changed_answers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "CHANGED_ANSWER_SECONDS", 0.1)
    await start(stage)
    await stage.reason("Warm")
    await stage.kill_sidecar()
    await stage.post("/sleep?level=2")
    await stage.post("/wake_up")
    before = len(stage.api.patches)
    stage.start_sidecar()
    await stage.reason("AnswerChanged")
    assert {patch["reason"] for patch in stage.api.patches[before:]} == {"AnswerChanged"}
    assert await stage.readyz() == 503
    await stage.post("/collective_rpc", method="reload_weights")
    await stage.reason("Warm")


async def test_sidecar_that_restarts_while_the_engine_sleeps_knows_the_old_answers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "TIMEOUT_SECONDS", 0.2)
    await start(stage)
    await stage.reason("Warm")
    await stage.kill_sidecar()
    await stage.post("/sleep?level=2")
    stage.start_sidecar()
    await stage.reason("Asleep")
    await stage.post("/wake_up")
    await stage.reason("AnswerChanged")
    assert await stage.readyz() == 503


async def complete(stage: Stage, tokens: int) -> int:
    """A user's request; its status, once it is answered."""
    url = f"http://127.0.0.1:{stage.engine_port}/v1/completions"
    body = {"model": "tiny", "prompt": "x", "max_tokens": tokens, "ignore_eos": True}
    async with stage.client.post(url, json=body) as answer:
        assert (await answer.json())["usage"]["completion_tokens"] == tokens
        return answer.status


async def test_requests_that_run_may_end_before_the_engine_sleeps(stage: Stage) -> None:
    await start(stage, token_seconds=0.01)
    await stage.reason("Warm")
    running = asyncio.create_task(complete(stage, 150))
    await stage.until_engine_runs(1)
    assert (await stage.order("load"))[1]["running"] == 1
    assert (await stage.order("sleep"))[0] == 202
    await stage.reason("FallingAsleep")
    assert await stage.readyz() == 503
    assert not running.done()
    assert await running == 200
    await stage.reason("Asleep")


async def test_a_pod_that_is_wanted_again_does_not_fall_asleep(stage: Stage) -> None:
    await start(stage, token_seconds=0.01)
    await stage.reason("Warm")
    running = asyncio.create_task(complete(stage, 150))
    await stage.until_engine_runs(1)
    await stage.order("sleep")
    await stage.reason("FallingAsleep")
    await stage.order("wake")
    await stage.reason("Warm")
    assert await stage.readyz() == 200
    assert await running == 200
    assert (await stage.order("sleep"))[0] == 202  # nothing was wrong with it
    await stage.reason("Asleep")


async def test_an_engine_that_does_not_become_idle_takes_traffic_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleeper, "IDLE_SECONDS", 0.5)
    await start(stage, token_seconds=0.02)
    await stage.reason("Warm")
    running = asyncio.create_task(complete(stage, 200))
    await stage.until_engine_runs(1)
    await stage.order("sleep")
    await stage.reason("FallingAsleep")
    await stage.reason("Warm")
    status, body = await stage.order("sleep")
    assert (status, "was not idle" in body["error"]) == (409, True)
    assert await running == 200


async def test_an_engine_that_is_not_put_to_sleep_is_checked_before_it_serves(stage: Stage) -> None:
    await stage.start_engine(env=DEVELOPMENT)  # without --enable-sleep-mode
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.reason("Warm")
    await stage.order("sleep")
    await until(lambda: "Waking" in stage.warm_reasons())
    await stage.reason("Warm")
    status, body = await stage.order("sleep")
    assert (status, "not enabled" in body["error"]) == (409, True)


async def test_wake_that_hangs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "WAKE_SECONDS", 1.0)
    monkeypatch.setattr(lifecycle, "WAKE_SECONDS", 1.0)
    await start(stage, fault="wake-hangs")
    await stage.reason("Warm")
    await stage.order("sleep")
    await stage.reason("Asleep")
    for _ in range(2):  # it is tried again when it is asked for again
        while stage.warm()["reason"] != "Waking":
            await stage.order("wake")
        await stage.reason("WakeFailed")
    assert await stage.readyz() == 503


async def test_an_engine_that_gives_no_answers_after_its_wake(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "WAKE_SECONDS", 1.0)

    async def never(*_: Any) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(watch, "changed_answer", never)
    await start(stage)
    await stage.reason("Warm")
    await stage.order("sleep")
    await stage.reason("Asleep")
    await stage.order("wake")
    await stage.reason("Waking")
    await stage.reason("WakeFailed")


async def test_nobody_may_give_orders_where_nobody_is_named(stage: Stage) -> None:
    stage.caller = ""
    await start(stage)
    await stage.reason("Warm")
    for order in ("sleep", "wake", "warm", "load"):
        assert (await stage.order(order))[0] == 501


async def test_orders_before_there_is_a_boot_or_warmth(stage: Stage) -> None:
    stage.start_sidecar()
    await stage.reason("SidecarStarting")
    assert (await stage.order("load"))[0] == 409
    await stage.start_engine("--enable-sleep-mode", env=DEVELOPMENT, fault="no-token")
    await stage.until_engine_runs(0)
    stage.launcher.start_boot("b1")
    await stage.reason("WarmingUp")
    assert (await stage.order("sleep"))[0] == 409
    assert (await stage.order("warm"))[0] == 409
