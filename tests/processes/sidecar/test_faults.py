"""Every fault of an engine: the gate ends where it must, with the right reason.

Launcher, simulated engine and sidecar are real processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from processes.sidecar.pod import pod
from warmpod.engine import EngineTraits

FEW_ROUNDS = {"maxRounds": 5, "tolerancePercent": 5}
GENEROUS = 60.0

STAYS_OUT = [
    # in the engine's start
    ("crash-at-start", {}, "EngineGaveUp", "exit code 1"),
    ("crash-after-load", {}, "EngineStartFailed", "gave up"),
    ("unsupported-argument", {}, "UnsupportedArgument", "unrecognized arguments"),
    ("missing-token", {}, "MissingToken", "gave up"),
    ("driver-mismatch", {}, "DriverMismatch", "gave up"),
    ("gpu-busy", {}, "GpuBusy", "gave up"),
    ("oom-in-weights", {}, "OutOfMemoryInWeights", "gave up"),
    ("oom-in-graphs", {}, "OutOfMemoryInGraphCapture", "gave up"),
    ("kv-cache-too-small", {}, "KVCacheTooSmall", "gave up"),
    # in its answers
    ("no-token", {"stallSeconds": 10}, "WarmupStalled", "no request made progress"),
    ("hang-after=5", {"stallSeconds": 10}, "WarmupStalled", "no request made progress"),
    ("error-500", {}, "WarmupFailed", "500"),
    ("empty-content", {}, "WarmupFailed", "every answer of the round was empty"),
    ("dies-in-round-2=12", {}, "EngineGaveUp", "while warm-up played"),
    # in its warmth
    ("never-converges", FEW_ROUNDS, "WarmupFailed", "not settled after 5 rounds"),
    ("falls-for-ever", FEW_ROUNDS, "WarmupFailed", "not settled after 5 rounds"),
    ("late-compile", FEW_ROUNDS, "WarmupFailed", "compiled in the last round"),
    ("cache-grows", FEW_ROUNDS, "WarmupFailed", "compile cache"),
]


@pytest.mark.parametrize(("fault", "warmup", "reason", "message"), STAYS_OUT)
async def test_faulty_engine_stays_out(
    tmp_path: Path, fault: str, warmup: Mapping[str, Any], reason: str, message: str
) -> None:
    async with pod(tmp_path, environment=_broken(tmp_path, fault), warmup=warmup) as tiny:
        with tiny.sidecar():
            await tiny.reason(reason, message, GENEROUS)
            assert tiny.warm()["status"] == "False"
            assert "Warm" not in tiny.reasons()
            assert await tiny.readyz() == 503


GETS_WARM = [
    ("no-chat", (), "completion"),
    ("no-chat-template", (), "completion"),
    ("one-token", (), "chat"),
    ("late-compile=3", (), "chat"),
    ("slow-under-load", (), "chat"),
    # Reasoning is an answer, too: with few tokens a model may get no further.
    ("empty-content", ("--reasoning-parser", "deepseek_r1"), "chat"),
]


@pytest.mark.parametrize(("fault", "arguments", "first"), GETS_WARM)
async def test_engine_that_is_only_different_gets_warm(
    tmp_path: Path, fault: str, arguments: tuple[str, ...], first: str
) -> None:
    traits = EngineTraits(reasoning_parser="deepseek_r1" if arguments else None)
    broken = _broken(tmp_path, fault)
    async with pod(tmp_path, *arguments, environment=broken, traits=traits) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            plan = await tiny.page("/plan")
            assert plan["buckets"][0]["endpoint"] == first


async def test_skip_that_leaves_nothing_is_told_and_does_not_keep_the_pod_out(
    tmp_path: Path,
) -> None:
    async with pod(tmp_path, warmup={"skip": ["*"]}) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            notes = (await tiny.page("/status"))["notes"]
            assert any(each.startswith("spec.warmup.skip leaves nothing") for each in notes), notes


async def test_nan_in_embeddings_is_no_answer(tmp_path: Path) -> None:
    broken = _broken(tmp_path, "nan-embeddings") | {"SIM_ARCHITECTURE": "BertModel"}
    async with pod(tmp_path, "--runner", "pooling", environment=broken) as tiny:
        with tiny.sidecar():
            await tiny.reason("WarmupFailed", "/v1/embeddings", GENEROUS)


GOLDEN = {"name": "count", "endpoint": "Completion", "prompt": "one two", "text": "nothing like it"}


async def test_wrong_answer_keeps_the_gate_closed_even_with_open(tmp_path: Path) -> None:
    warmup = {"golden": [GOLDEN], "onFailure": "Open"}
    async with pod(tmp_path, warmup=warmup) as tiny:
        with tiny.sidecar():
            await tiny.reason("GoldenMismatch", "nothing like it", GENEROUS)
            assert await tiny.readyz() == 503
            assert tiny.reasons().isdisjoint({"Warm", "OpenedUnproven"})


async def test_restarts_are_asked_for_and_bounded(tmp_path: Path) -> None:
    warmup = {"golden": [GOLDEN], "onFailure": "Restart", "maxRestarts": 2}
    async with pod(tmp_path, warmup=warmup) as tiny:
        with tiny.sidecar():
            await tiny.reason("EngineRestarting", "GoldenMismatch", GENEROUS)
            await tiny.reason("GoldenMismatch", "2 of 2 restarts", GENEROUS)
            causes = [event["cause"] for event in tiny.launcher.events("boot-ended")]
            assert causes == ["warmup-failed", "warmup-failed"]
            assert len(tiny.launcher.events("boot-started")) == 3


SLEEPY = {"VLLM_SERVER_DEV_MODE": "1"}


@pytest.mark.parametrize(
    ("down", "up"), [("/sleep?level=1", "/wake_up"), ("/pause", "/resume")], ids=["sleep", "pause"]
)
async def test_sleep_by_anybody_closes_and_waking_opens(tmp_path: Path, down: str, up: str) -> None:
    async with pod(tmp_path, "--enable-sleep-mode", environment=SLEEPY) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            assert await tiny.post(down) == 200
            await tiny.reason("Asleep")
            assert await tiny.readyz() == 503
            assert await tiny.post(up) == 200
            await tiny.reason("Warm")
            assert await tiny.readyz() == 200


async def test_wrong_text_after_wake_keeps_the_gate_closed(tmp_path: Path) -> None:
    broken = SLEEPY | _broken(tmp_path, "wrong-text-after-wake")
    async with pod(tmp_path, "--enable-sleep-mode", environment=broken) as tiny:
        with tiny.sidecar():
            await tiny.reason("Warm", "", GENEROUS)
            await tiny.post("/sleep?level=1")
            await tiny.reason("Asleep")
            await tiny.post("/wake_up")
            await tiny.reason("AnswerChanged", "before: ")
            assert await tiny.readyz() == 503


async def test_feature_that_kills_the_engine_is_left_out_at_the_next_boot(tmp_path: Path) -> None:
    warmup = {"skip": ["repeat", "prefill-while-decoding", "structured/*", "sampler/prompt-*"]}
    broken = _broken(tmp_path, "dies-on-logprobs")
    async with pod(tmp_path, environment=broken, warmup=warmup) as tiny:
        with tiny.sidecar():
            await tiny.reason("EngineDied", "while warm-up played sampler/logprobs", GENEROUS)
            await tiny.reason("Warm", "", GENEROUS)
            notes = (await tiny.page("/status"))["notes"]
            assert any(note.startswith("sampler/logprobs is left out: boot") for note in notes)


async def test_settings_are_compared_by_a_boot_of_their_own(tmp_path: Path) -> None:
    other = ["--seed", "7"]
    warmup = {"compare": {"args": other, "samples": 3}}
    async with pod(tmp_path, warmup=warmup, reference=other) as tiny:
        with tiny.sidecar():
            await tiny.reason("Comparing", "", GENEROUS)
            await tiny.reason("Warm", "", GENEROUS)
            assert "3 answers are the same" in (await tiny.page("/status"))["comparison"]


def _broken(folder: Path, fault: str) -> dict[str, str]:
    return {"SIM_FAULT": fault, "VLLM_CACHE_ROOT": str(folder / "cache")}
