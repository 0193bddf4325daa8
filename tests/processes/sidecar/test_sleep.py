"""Sleep at moments that are worse than others: whoever wakes is checked, and let in again."""

import asyncio
from typing import Any

import pytest

from processes.sidecar.harness import Stage
from warmpod.sidecar import canary, sleep, watch
from warmpod.sidecar.checks import changed_answer

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
