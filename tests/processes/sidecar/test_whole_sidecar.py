"""The whole sidecar against a simulated engine."""

import asyncio
import json
from typing import Any

import pytest

from processes.sidecar.harness import WARMUP, Stage
from support.certificates import make_certificates
from support.until import until
from warmpod.api.warmup import ConfigMapSource, Prefix
from warmpod.protocol import WARM_CONDITION
from warmpod.sidecar import canary, exercise
from warmpod.sidecar.lifecycle import rules


async def warm_stage(stage: Stage, **knobs: object) -> None:
    await stage.start_engine(**knobs)
    stage.launcher.write("launcher-started")
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.reason("Warm")


async def test_gate_opens_only_after_warm_up(stage: Stage) -> None:
    stage.start_sidecar()
    await stage.reason("SidecarStarting")
    assert await stage.readyz() == 503
    stage.launcher.write("launcher-started")
    stage.launcher.start_boot("b1")
    await stage.reason("EngineStarting")
    await stage.start_engine(load_seconds=0.3)
    await stage.reason("WarmingUp")
    assert await stage.readyz() == 503
    warm = await stage.reason("Warm")
    assert await stage.readyz() == 200
    assert warm["status"] == "True"
    assert warm["message"].startswith("boot b1 warm: ")
    assert [patch["status"] for patch in stage.api.of_type(WARM_CONDITION)].count("True") == 1
    assert json.loads((stage.run_dir / "warm.json").read_text())["boot"] == "b1"


async def test_every_bucket_is_played(stage: Stage) -> None:
    stage.warmup = WARMUP.model_copy(update={"concurrency": (1, 2), "skip": ("sampler/*",)})
    await warm_stage(stage)
    status = json.loads(await stage.get("/status"))
    plan = json.loads(await stage.get("/plan"))
    names = {bucket["name"] for bucket in plan["buckets"]}
    assert {bucket["name"] for bucket in status["buckets"]} == names
    assert all(bucket["steady_ms"] > 0 for bucket in status["buckets"])
    assert {name.partition("/")[0] for name in names} >= {"chat", "completion", "structured"}
    assert status["engine_version"] == "0.32.0"
    assert 'warmpod_warmup_status{gpu_id="none",model_name="tiny"} 1.0' in await stage.get(
        "/metrics"
    )


async def test_timeline_tells_how_the_boot_went(stage: Stage) -> None:
    await warm_stage(stage)
    await until(lambda: stage.api.last("warmpod.io/StartupTimeline"))
    timeline = stage.timeline()
    assert (timeline["boot"], timeline["number"], timeline["cause"]) == ("b1", 1, "pod-start")
    marks = [timeline[mark] for mark in ("boot_started", "http", "first_token", "gate")]
    assert marks == sorted(marks)
    assert timeline["rounds"] >= 3
    assert timeline["first_ttft_ms"] >= 50 > timeline["steady_ttft_ms"]


async def test_two_cold_requests_a_bucket_do_not_fool_it(stage: Stage) -> None:
    await warm_stage(stage, cold_requests=2)
    rounds = json.loads((stage.run_dir / "warm.json").read_text())["rounds"]
    assert rounds >= 4


async def test_end_of_a_boot_closes_both_locks_and_the_next_boot_is_warmed(stage: Stage) -> None:
    await warm_stage(stage)
    readyz_at_patch: list[int] = []

    async def look(condition: dict[str, Any]) -> None:
        if condition["reason"] == "EngineDied":
            readyz_at_patch.append(await stage.readyz())

    stage.api.on_patch = look
    stage.launcher.release("b1")
    await stage.reason("EngineDied")
    assert readyz_at_patch[0] == 503
    stage.launcher.write(
        "boot-ended",
        "b1",
        exit_code=None,
        signal=9,
        cause="engine-process-died",
        last_lines=["one", "EngineCore died"],
    )
    await until(lambda: "SIGKILL" in stage.warm()["message"])
    assert "last line: EngineCore died" in stage.warm()["message"]
    await stage.start_engine()
    stage.launcher.start_boot("b2", 2)
    warm = await stage.reason("Warm")
    assert "boot b2 warm" in warm["message"]
    assert stage.warm_reasons()[-4:-1] == ["EngineDied", "EngineStarting", "WarmingUp"]
    await until(lambda: stage.timeline()["boot"] == "b2")
    assert stage.timeline()["cause"] == "engine-died"


async def test_api_server_away_when_the_gate_closes(stage: Stage) -> None:
    await warm_stage(stage)
    stage.api.failing = True
    stage.launcher.end_boot("b1")
    await until(lambda: stage.api.refused >= 2)
    assert await stage.readyz() == 503
    stage.api.failing = False
    died = await stage.reason("EngineDied")
    assert died["status"] == "False"


async def test_restarted_sidecar_needs_one_canary_and_keeps_the_condition(stage: Stage) -> None:
    await warm_stage(stage)
    await stage.kill_sidecar()
    before = len(stage.api.of_type(WARM_CONDITION))
    stage.start_sidecar()
    await until(lambda: len(stage.api.of_type(WARM_CONDITION)) > before)
    again = stage.api.of_type(WARM_CONDITION)[before:]
    assert {patch["status"] for patch in again} == {"True"}
    assert await stage.readyz() == 200
    assert json.loads(await stage.get("/status"))["rounds"] == 0


async def test_restarted_sidecar_closes_when_the_boot_has_changed(stage: Stage) -> None:
    await warm_stage(stage)
    await stage.kill_sidecar()
    before = len(stage.api.of_type(WARM_CONDITION))
    stage.launcher.end_boot("b1")
    stage.launcher.start_boot("b2", 2)
    stage.start_sidecar()
    await stage.reason("WarmingUp")
    assert stage.api.of_type(WARM_CONDITION)[before]["status"] == "False"
    await stage.reason("Warm")


async def test_restarted_sidecar_closes_when_the_engine_does_not_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "TIMEOUT_SECONDS", 0.2)
    await warm_stage(stage)
    await stage.kill_sidecar()
    await stage.start_engine(fault="no-token")
    before = len(stage.api.of_type(WARM_CONDITION))
    stage.start_sidecar()
    await stage.reason("WarmingUp")
    assert stage.api.of_type(WARM_CONDITION)[before]["status"] == "False"


async def test_sigterm_closes_the_gate(stage: Stage) -> None:
    await warm_stage(stage)
    await stage.stop_sidecar()
    assert (stage.warm()["status"], stage.warm()["reason"]) == ("False", "Stopping")
    assert await stage.readyz() == 0


async def test_no_token_yet(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "NO_TOKEN_SECONDS", 0.3)
    stage.warmup = WARMUP.model_copy(update={"stall_seconds": 1})
    await stage.start_engine(fault="no-token")
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.reason("NoTokenYet")
    await stage.reason("WarmupStalled")
    assert await stage.readyz() == 503


async def test_warm_up_that_hangs_is_called_stalled(stage: Stage) -> None:
    stage.warmup = WARMUP.model_copy(update={"stall_seconds": 1})
    await stage.start_engine(fault="hang-after=5")
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    stalled = await stage.reason("WarmupStalled")
    assert stalled["status"] == "False"


async def test_on_failure_open_opens_a_stalled_engine_unproven(stage: Stage) -> None:
    stage.warmup = WARMUP.model_copy(update={"stall_seconds": 1, "on_failure": "Open"})
    await stage.start_engine(fault="hang-after=5")
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    unproven = await stage.reason("OpenedUnproven")
    assert unproven["status"] == "True"
    assert "WarmupStalled" in unproven["message"]
    assert await stage.readyz() == 200
    assert not (stage.run_dir / "warm.json").exists()
    stage.launcher.end_boot("b1")
    await stage.reason("EngineDied")


@pytest.mark.parametrize(
    ("fault", "text"),
    [("error-500", "500 "), ("empty-content", "every answer of the round was empty")],
)
async def test_failing_answers_are_quoted_and_recovery_needs_no_help(
    stage: Stage, fault: str, text: str
) -> None:
    await stage.start_engine(fault=fault)
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    failed = await stage.reason("WarmupFailed")
    assert text in failed["message"]
    assert await stage.readyz() == 503
    await stage.start_engine()
    await stage.reason("Warm")


async def test_engine_that_dies_in_warm_up_never_opens(stage: Stage) -> None:
    await stage.start_engine(fault="die-after=12")
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.reason("WarmupFailed")
    stage.launcher.end_boot("b1")
    await stage.reason("EngineDied")
    assert "Warm" not in stage.warm_reasons()


async def test_stopping_closes_the_gate_and_says_so(stage: Stage) -> None:
    await warm_stage(stage)
    (stage.run_dir / "stopping").touch()
    await until((stage.run_dir / "gate-closed").exists)
    assert (stage.warm()["status"], stage.warm()["reason"]) == ("False", "Stopping")
    assert await stage.readyz() == 503


async def test_new_launcher_after_a_stop_starts_afresh(stage: Stage) -> None:
    await warm_stage(stage)
    (stage.run_dir / "stopping").touch()
    await until((stage.run_dir / "gate-closed").exists)
    stage.launcher.end_boot("b1")
    (stage.run_dir / "stopping").unlink()
    stage.launcher.write("launcher-started")
    stage.launcher.start_boot("b2")
    await stage.reason("Warm")
    assert not (stage.run_dir / "gate-closed").exists()
    await until(lambda: stage.timeline()["cause"] == "container-restart")


async def test_stopping_ends_a_warm_up_so_that_the_engine_can_drain(stage: Stage) -> None:
    await stage.start_engine(fault="hang-after=5")
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.until_engine_runs(1)
    (stage.run_dir / "stopping").touch()
    await stage.until_engine_runs(0)


async def test_tls(stage: Stage) -> None:
    make_certificates(stage.tmp_path, "engine")
    stage.scheme = "https"
    certificate, key = stage.tmp_path / "engine.crt", stage.tmp_path / "engine.key"
    await stage.start_engine("--ssl-certfile", str(certificate), "--ssl-keyfile", str(key))
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.reason("Warm")


async def test_hanging_engine_is_found_by_the_canary_and_let_in_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(canary, "RETRY_SECONDS", 0.05)
    stage.warmup = WARMUP.model_copy(update={"canary_period_seconds": 1})
    stage.api.serving = {"tiny-0", "tiny-1"}
    await warm_stage(stage)
    await stage.start_engine(fault="no-token")
    failed = await stage.reason("CanaryFailed")
    assert failed["status"] == "False"
    assert await stage.readyz() == 503
    await stage.start_engine()
    await stage.reason("Warm")


async def test_time_out_does_not_remove_the_last_pod_until_another_serves(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(canary, "RETRY_SECONDS", 0.05)
    stage.warmup = WARMUP.model_copy(update={"canary_period_seconds": 1})
    stage.api.serving = {"tiny-0"}
    await warm_stage(stage)
    await stage.start_engine(fault="no-token")
    await until(lambda: "no other pod serves the model" in stage.warm()["message"])
    assert (stage.warm()["status"], await stage.readyz()) == ("True", 200)
    stage.api.serving.add("tiny-1")
    await stage.reason("CanaryFailed")
    assert await stage.readyz() == 503


async def test_engine_that_refuses_the_canary_is_closed_even_as_the_last_pod(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "RETRY_SECONDS", 0.05)
    stage.warmup = WARMUP.model_copy(update={"canary_period_seconds": 1})
    stage.api.serving = {"tiny-0"}
    await warm_stage(stage)
    await stage.start_engine(fault="error-500")
    await stage.reason("CanaryFailed")


async def test_known_failure_gives_its_own_reason_until_a_boot_gets_further(stage: Stage) -> None:
    stage.start_sidecar()
    stage.launcher.start_boot("b1")
    stage.launcher.write("failure", "b1", reason="OutOfMemory", line="CUDA out of memory")
    await stage.reason("OutOfMemory")
    stage.launcher.end_boot("b1")
    stage.launcher.start_boot("b2", 2)
    await until(lambda: "b2 (number 2) is starting" in stage.warm()["message"])
    assert stage.warm()["reason"] == "OutOfMemory"
    stage.launcher.end_boot("b2")
    stage.launcher.write("gave-up")
    await stage.reason("EngineGaveUp")


async def test_api_key_and_unknown_served_name(stage: Stage) -> None:
    await stage.start_engine("--api-key", "secret")
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    refused = await stage.reason("WarmupFailed")
    assert "401" in refused["message"]
    assert "VLLM_API_KEY" in refused["message"]
    await stage.kill_sidecar()
    stage.api_key = "secret"
    stage.start_sidecar()
    await stage.reason("Warm")


async def test_old_boots_in_the_events_do_not_matter(stage: Stage) -> None:
    for number in range(1, 4):
        stage.launcher.start_boot(f"old{number}", number)
        stage.launcher.end_boot(f"old{number}")
    await stage.start_engine()
    stage.launcher.start_boot("b4", 4)
    stage.start_sidecar()
    await stage.reason("Warm")
    assert "EngineDied" not in stage.warm_reasons()[1:]


async def test_late_compilation_keeps_the_gate_closed(stage: Stage) -> None:
    await stage.start_engine()
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.reason("WarmingUp")
    for _ in range(30):
        stage.launcher.write("late-compile", "b1", kernel="k")
        await asyncio.sleep(0.05)
    assert "Warm" not in stage.warm_reasons()
    await stage.reason("Warm")


async def test_adapter_that_is_loaded_later_is_exercised_and_the_gate_stays_open(
    stage: Stage,
) -> None:
    stage.warmup = WARMUP.model_copy(update={"canary_period_seconds": 1})
    await stage.start_engine("--enable-lora", env={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"})
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.reason("Warm")
    patches = len(stage.api.of_type(WARM_CONDITION))
    path = str(stage.tmp_path)
    loaded = await stage.post("/v1/load_lora_adapter", lora_name="sql", lora_path=path)
    assert loaded == 200
    await stage.until_bucket("adapter/sql")
    added = (await stage.page("/status"))["added"]
    assert added
    assert all(name.startswith("adapter/sql") for name in added)
    await stage.post("/v1/unload_lora_adapter", lora_name="sql")
    await stage.until_bucket("adapter/sql", there=False)
    assert len(stage.api.of_type(WARM_CONDITION)) == patches
    assert await stage.readyz() == 200


async def test_changed_prompts_are_exercised_and_bad_ones_noted(stage: Stage) -> None:
    folder = stage.tmp_path / "prompts" / "ours"
    folder.mkdir(parents=True)
    (folder / "greeting").write_text("hello there")
    (folder / "many.jsonl").write_text('{"prompt": "one", "max_tokens": 2}\nno json\n')
    source = ConfigMapSource(config_map="ours")
    stage.warmup = WARMUP.model_copy(update={"prompts_from": (source,), "canary_period_seconds": 1})
    await warm_stage(stage)
    names = {bucket["name"] for bucket in (await stage.page("/plan"))["buckets"]}
    assert {name.partition("#")[0] for name in names if name.startswith("user/")} == {
        "user/ours/greeting",
        "user/ours/many.jsonl:1",
    }
    notes = (await stage.page("/status"))["notes"]
    assert any("key many.jsonl, line 2 is left out: not JSON" in note for note in notes)
    (folder / "greeting").write_text("good morning")
    await stage.until_status(lambda status: len(status["added"]) == 1)
    assert (await stage.page("/status"))["added"][0].startswith("user/ours/greeting#")


async def test_prefixes_are_primed_and_their_hit_is_checked(stage: Stage) -> None:
    long = Prefix(name="long", text="word " * 40)
    short = Prefix(name="short", text="be kind")
    stage.warmup = WARMUP.model_copy(update={"prefixes": (long, short)})
    await warm_stage(stage)
    notes = [note for note in (await stage.page("/status"))["notes"] if "prefix/" in note]
    assert notes == ["prefix/short: the engine counted no hit of its prefix cache"]


async def test_old_evidence_of_an_idle_engine_is_renewed(stage: Stage) -> None:
    stage.warmup = WARMUP.model_copy(update={"canary_period_seconds": 1, "evidence_seconds": 1})
    await warm_stage(stage)
    before = await stage.requests()
    await stage.until_status(lambda status: status["renewed"] > 0)
    assert await stage.requests() > before + 3
    assert stage.warm_reasons()[-1] == "Warm"


@pytest.mark.parametrize("warm_before", [False, True], ids=["never-warm", "sidecar-restarted"])
async def test_engine_that_sleeps_before_it_is_proven_warm_gets_warm_when_it_wakes(
    stage: Stage, warm_before: bool
) -> None:
    await stage.start_engine("--enable-sleep-mode", env={"VLLM_SERVER_DEV_MODE": "1"})
    await stage.until_engine_runs(0)
    stage.launcher.start_boot("b1")
    if warm_before:
        stage.start_sidecar()
        await stage.reason("Warm")
        await stage.kill_sidecar()
    assert await stage.post("/sleep?level=1") == 200
    stage.start_sidecar()
    await stage.reason("Asleep")
    assert await stage.post("/wake_up") == 200
    await stage.reason("Warm")
    assert await stage.readyz() == 200


async def test_reference_that_never_starts_does_not_keep_the_pod_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercise, "REFERENCE_START_SECONDS", 0.2)
    stage.launcher.start_boot("r", 0, reference=True)
    stage.start_sidecar()
    await stage.reason("Comparing")
    await until((stage.run_dir / "end-boot.json").exists)
    assert json.loads((stage.run_dir / "end-boot.json").read_text())["boot"] == "r"


async def test_events_that_nobody_understands_do_no_harm(stage: Stage) -> None:
    await stage.start_engine()
    stage.launcher.write("boot-started", "x")
    stage.launcher.write("failure", "x", reason="OutOfMemory")
    stage.launcher.write("boot-started", "x", number="many", lock="l")
    stage.launcher.write("boot-ended", "x", signal="none", last_lines=[1])
    (stage.run_dir / "events.jsonl").open("ab").write(b"\xff\x00[\n" + b"[" * 100_000 + b"\n")
    stage.launcher.start_boot("b1")
    stage.start_sidecar()
    await stage.reason("Warm")


async def test_a_pod_that_was_deleted_before_its_engine_came_is_not_held_up(stage: Stage) -> None:
    """SIGTERM came before anybody handled it, and comes once only."""
    stage.api.metadata = {"deletionTimestamp": "2030-01-01T12:00:00Z"}
    stage.start_sidecar()
    await stage.sidecar_ended()
    assert stage.warm_reasons()[-1] == "Stopping"


async def test_a_pod_that_is_deleted_keeps_its_sidecar_as_long_as_its_engine(stage: Stage) -> None:
    await warm_stage(stage)
    stage.api.metadata = {"deletionTimestamp": "2030-01-01T12:00:00Z"}
    stage.launcher.end_boot("b1")
    await stage.reason("EngineDied")
    stage.launcher.start_boot("b2", number=2)
    await stage.reason("Warm")
