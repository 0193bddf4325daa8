"""The operator's orders: launcher, engine and sidecar as processes, with real tokens."""

from pathlib import Path

import pytest

from processes.sidecar.pod import Pod, pod
from support.cluster_tokens import TokenSigner
from warmpod.launcher.guard import DEV_PATHS
from warmpod.protocol import control_audience, service_account_user

GENEROUS = 60.0
REPLAYED = {"canaryPeriodSeconds": 300}


async def test_sleep_and_wake(tmp_path: Path) -> None:
    async with pod(tmp_path, sleep_mode=True) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            assert await tiny.order("load") == (200, {"running": 0, "waiting": 0})
            for _ in range(2):  # again and again makes no difference
                status, _ = await tiny.order("sleep")
                assert status == 202
            await tiny.reason("Asleep", "sleeps or is paused")
            assert await tiny.readyz() == 503
            assert (await tiny.order("sleep"))[0] == 202
            assert "gave back" not in tiny.warm()["message"]
            for _ in range(2):
                status, _ = await tiny.order("wake")
                assert status == 202
            await tiny.reason("Warm")
            assert await tiny.readyz() == 200
            assert {"FallingAsleep", "Waking"} <= tiny.reasons()
            assert tiny.reasons().isdisjoint({"WakeFailed", "AnswerChanged"})


async def test_dev_endpoints_are_closed_to_everybody_else(tmp_path: Path) -> None:
    async with pod(tmp_path, sleep_mode=True) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            assert {await tiny.post(path) for path in sorted(DEV_PATHS)} == {403}
            assert {await tiny.get_of_engine(path) for path in sorted(DEV_PATHS)} == {403}
            assert await tiny.get_of_engine("/v1/models") == 200
            assert tiny.warm()["reason"] == "Warm"


async def test_only_the_operator_is_let_in(tmp_path: Path) -> None:
    async with pod(tmp_path, sleep_mode=True) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            signer = tiny.api.signer
            for token in (
                "",
                "x",
                signer.sign(audience=control_audience("models", "other")),
                signer.sign(lives_seconds=-60),
                signer.sign(subject=service_account_user("models", "tiny-warmpod")),
                signer.sign(issuer="https://example.com"),
                TokenSigner().sign(),
            ):
                for action in ("sleep", "wake", "warm", "load"):
                    status, body = await tiny.order(action, token)
                    assert (status, body) == (401, {"error": "unauthorized"})
            assert tiny.reasons().isdisjoint({"FallingAsleep", "Asleep"})


async def test_orders_are_taken_while_the_api_server_is_away(tmp_path: Path) -> None:
    async with pod(tmp_path, sleep_mode=True) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            assert (await tiny.order("load"))[0] == 200
            reads = tiny.api.key_reads
            tiny.api.failing = True
            assert (await tiny.order("sleep"))[0] == 202
            tiny.api.failing = False
            await tiny.reason("Asleep")
            assert tiny.api.key_reads == reads


async def test_sidecar_that_restarts_beside_a_sleeping_engine_wakes_it(tmp_path: Path) -> None:
    async with pod(tmp_path, sleep_mode=True) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            await tiny.order("sleep")
            await tiny.reason("Asleep")
        before = len(tiny.api.patches)
        with tiny.sidecar():
            await tiny.wait_patches(before + 1)
            await tiny.reason("Asleep")
            await tiny.order("wake")
            await tiny.reason("Warm")


async def test_wake_that_fails(tmp_path: Path) -> None:
    async with pod(tmp_path, environment=broken("wake-fails"), sleep_mode=True) as tiny:
        with tiny.sidecar():
            await asleep(tiny)
            await tiny.order("wake")
            await tiny.reason("WakeFailed", "/wake_up: 500")
            assert "delete the pod" in tiny.warm()["message"]
            assert await tiny.readyz() == 503


async def test_wake_that_fails_restarts_the_engine_where_that_is_asked_for(tmp_path: Path) -> None:
    warmup = {"onFailure": "Restart"}
    fault = broken("wake-fails")
    async with pod(tmp_path, environment=fault, sleep_mode=True, warmup=warmup) as tiny:
        with tiny.sidecar():
            await asleep(tiny)
            await tiny.order("wake")
            await tiny.reason("EngineRestarting", "WakeFailed")
            await tiny.reason("Warm", "", GENEROUS)
            assert (await tiny.order("sleep"))[0] == 202  # the next boot takes orders too
            await tiny.reason("Asleep")


async def test_wrong_text_after_wake(tmp_path: Path) -> None:
    async with pod(tmp_path, environment=broken("wrong-text-after-wake"), sleep_mode=True) as tiny:
        with tiny.sidecar():
            await asleep(tiny)
            await tiny.order("wake")
            await tiny.reason("AnswerChanged", "before: ")
            assert await tiny.readyz() == 503


async def test_memory_that_is_not_freed_is_told(tmp_path: Path) -> None:
    async with pod(tmp_path, environment=broken("memory-not-freed"), sleep_mode=True) as tiny:
        with tiny.sidecar():
            await asleep(tiny)
            await tiny.reason("Asleep", "it gave back only 0.2 of 15.0 GiB of GPU memory")
            await tiny.order("wake")
            await tiny.reason("Warm")


async def test_engine_without_sleep_mode_cannot_sleep(tmp_path: Path) -> None:
    async with pod(tmp_path) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            status, body = await tiny.order("sleep")
            assert (status, "spec.standby.state" in body["error"]) == (501, True)
            assert (await tiny.order("wake"))[0] == 202  # it is awake
            assert await tiny.readyz() == 200


async def test_dev_mode_of_the_users_own_is_not_guarded(tmp_path: Path) -> None:
    own = {"VLLM_SERVER_DEV_MODE": "1"}
    async with pod(tmp_path, environment=own, sleep_mode=True) as tiny:
        with tiny.sidecar():
            await asleep(tiny)
            assert await tiny.post("/wake_up") == 200
            await tiny.reason("Warm")


@pytest.mark.parametrize("times", [1, 2])
async def test_warm_up_is_played_again(tmp_path: Path, times: int) -> None:
    async with pod(tmp_path, warmup=REPLAYED) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            for number in range(1, times + 1):
                status, body = await tiny.order("warm")
                assert (status, body["replay"]["running"]) == (202, True)
                await tiny.replayed(number)
            assert tiny.reasons().isdisjoint({"Waking", "AnswerChanged"})
            assert tiny.warm()["reason"] == "Warm"


async def asleep(tiny: Pod) -> None:
    await tiny.reason("Warm", "", GENEROUS)
    assert (await tiny.order("sleep"))[0] == 202
    await tiny.reason("Asleep")


def broken(fault: str) -> dict[str, str]:
    return {"SIM_FAULT": fault}
