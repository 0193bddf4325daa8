"""Configuration, canary, rounds, time line, memory and messages about how a boot ended."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warmpod.sidecar.plan import Bucket, Plan, Served, TokenCost, make_plan

from unit.sidecar.harness import WARMUP
from warmpod.protocol import SIDECAR_CONFIG_VARIABLE
from warmpod.sidecar.answers import Answer
from warmpod.sidecar.boots import LauncherEvent
from warmpod.sidecar.canary import Canary
from warmpod.sidecar.config import ConfigError, read_config
from warmpod.sidecar.engine import EngineError, EngineTimeoutError, Reply, sum_of_counters
from warmpod.sidecar.launcher_events import lifecycle_event
from warmpod.sidecar.lifecycle import BootEnded, Evidence
from warmpod.sidecar.memory import WarmMemory, recall, remember
from warmpod.sidecar.rounds import play_round
from warmpod.sidecar.timeline import LONGEST_MESSAGE, Timeline

GIVEN: dict[str, Any] = {
    "model": "tiny",
    "revision": "0123456789",
    "base_url": "http://127.0.0.1:8000/",
    "served_name": "tiny",
    "run_dir": "/run/warmpod",
    "port": 9180,
    "warmup": {
        "stallSeconds": 300,
        "tolerancePercent": 25,
        "maxRounds": 20,
        "canaryPeriodSeconds": 30,
        "onFailure": "Block",
        "promptTokens": [16, 128],
        "concurrency": [1, 4],
    },
    "api_key_env": "WARMPOD_ENGINE_API_KEY",
    "tls_verify": False,
}


def test_config() -> None:
    environment = {SIDECAR_CONFIG_VARIABLE: json.dumps(GIVEN), "WARMPOD_ENGINE_API_KEY": "secret"}
    config = read_config(environment)
    assert config.base_url == "http://127.0.0.1:8000"
    assert config.api_key == "secret"
    assert config.warmup.prompt_tokens == (16, 128)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "not set"),
        ("{", "not JSON"),
        (json.dumps({**GIVEN, "warmup": {}}), "onFailure"),
        (json.dumps({**GIVEN, "warmup": {**GIVEN["warmup"], "onFailure": "Restart"}}), "Restart"),
        (json.dumps({**GIVEN, "port": "x"}), "ValueError"),
    ],
)
def test_config_that_cannot_be_used(text: str | None, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        read_config({} if text is None else {SIDECAR_CONFIG_VARIABLE: text})


class ScriptedEngine:
    """Stands in for Engine in what a canary asks of it."""

    def __init__(self, error: EngineError | None, progress: list[float | None]) -> None:
        self._error = error
        self._progress = progress

    async def progress(self) -> float | None:
        return self._progress.pop(0)

    async def generate(self, *_: object) -> None:
        if self._error is not None:
            raise self._error


TIMEOUT = EngineTimeoutError("no answer in 10 s")


@pytest.mark.parametrize(
    ("error", "progress", "lives"),
    [
        pytest.param(None, [1, 1], True, id="answered"),
        pytest.param(TIMEOUT, [1, 1], False, id="hangs"),
        pytest.param(TIMEOUT, [1, 2], True, id="busy with users"),
        pytest.param(TIMEOUT, [None, 2], False, id="unknown progress before"),
        pytest.param(TIMEOUT, [1, None], False, id="metrics hang too"),
        pytest.param(EngineError("503 queue is full", 503), [1, 2], True, id="queue full"),
        pytest.param(EngineError("503 paused", 503), [1, 1], False, id="refuses and does nothing"),
        pytest.param(EngineError("500 oops", 500), [1, 2], False, id="a real error"),
        pytest.param(EngineError("refused"), [1, 2], False, id="not reachable"),
    ],
)
async def test_canary(error: EngineError | None, progress: list[float | None], lives: bool) -> None:
    engine: Any = ScriptedEngine(error, progress)
    problem = await Canary(engine, "chat", "tiny").check()
    assert (problem == "") is lives


def test_progress_is_summed_over_labels() -> None:
    page = (
        "# TYPE vllm:generation_tokens_total counter\n"
        'vllm:generation_tokens_total{engine="0",model_name="a b"} 5.0\n'
        'vllm:generation_tokens_total{engine="1",model_name="a b"} 7.0\n'
        'vllm:prompt_tokens_total{engine="0"} 1e+02\n'
        'vllm:request_success_total{engine="0"} 9.0\n'
    )
    assert sum_of_counters(page) == 112


PLAN = make_plan(
    Served("tiny", 2048, {"chat": TokenCost(1.0), "completion": TokenCost(1.0)}), WARMUP
)
TALK = Reply(0.1, 0.2, Answer(True, 5))
SILENCE = Reply(0.1, 0.2, Answer(False, 5))


async def play(plan: Plan, answer: Callable[[Bucket], Reply | EngineError]) -> tuple[Any, int]:
    asked = 0

    async def ask(bucket: Bucket) -> Reply:
        nonlocal asked
        asked += 1
        outcome = answer(bucket)
        if isinstance(outcome, EngineError):
            raise outcome
        return outcome

    return await play_round(plan, ask), asked


async def test_round_measures_every_request() -> None:
    plan = make_plan(
        Served("tiny", 2048, {"chat": TokenCost(1.0)}),
        WARMUP.model_copy(update={"concurrency": (1, 3)}),
    )
    played, asked = await play(plan, lambda _: TALK)
    assert asked == 4 + 12
    assert played.problems == ()
    assert {len(values) for values in played.round.first_token.values()} == {1, 3}


async def test_round_against_an_engine_that_refuses_everything_is_short() -> None:
    played, asked = await play(PLAN, lambda _: EngineError("500 oops", 500))
    assert asked == 3
    assert played.round.problems[0] == "chat/stream/sampled/p16/c1: 500 oops"


async def test_round_goes_on_after_one_refusal() -> None:
    played, asked = await play(
        PLAN, lambda b: EngineError("400", 400) if b.sampling == "greedy" else TALK
    )
    assert asked == 8
    assert len(played.problems) == 4


async def test_round_ends_at_a_time_out() -> None:
    _, asked = await play(PLAN, lambda _: TIMEOUT)
    assert asked == 1


async def test_an_answer_may_be_empty_but_not_all_of_an_endpoint() -> None:
    played, _ = await play(PLAN, lambda b: SILENCE if b.endpoint == "chat" else TALK)
    assert played.round.problems == ("chat: every answer of the round was empty",)
    played, _ = await play(PLAN, lambda b: SILENCE if b.sampling == "greedy" else TALK)
    assert played.problems == ()


def event(name: str, ts: float, boot: str = "", **fields: Any) -> LauncherEvent:
    return LauncherEvent(ts, boot, name, fields)


def test_timeline() -> None:
    timeline = Timeline()
    timeline.note(event("launcher-started", 1.0))
    timeline.note(event("boot-started", 2.0, "a", number=1))
    timeline.note(event("stage", 3.0, "a", stage="weights"))
    timeline.note(event("stage", 4.0, "a", stage="weights"))
    timeline.note(event("stage", 5.0, "other", stage="compile"))
    timeline.note(event("stage", 6.0, "a", stage="aot_hit"))
    timeline.mark("http", 7.00049)
    timeline.mark("gate", 9.0)
    timeline.mark("gate", 11.0)
    assert json.loads(timeline.render(Evidence(4, 0.0841, 0.022))) == {
        "boot": "a",
        "number": 1,
        "cause": "pod-start",
        "launcher": 1.0,
        "boot_started": 2.0,
        "stages": {"weights": 3.0, "aot_hit": 6.0},
        "http": 7.0,
        "gate": 9.0,
        "rounds": 4,
        "first_ttft_ms": 84.1,
        "steady_ttft_ms": 22.0,
        "compile": "hit",
    }


def test_timeline_of_a_restarted_container_and_its_bound() -> None:
    timeline = Timeline()
    timeline.note(event("launcher-started", 1.0))
    timeline.note(event("launcher-started", 2.0))
    timeline.note(event("boot-started", 3.0, "a", number=1))
    for i in range(500):
        timeline.note(event("stage", 1e9 + i, "a", stage=f"stage{i}"))
    text = timeline.render(None)
    assert json.loads(text)["cause"] == "container-restart"
    assert len(text) <= LONGEST_MESSAGE


def test_memory(tmp_path: Path) -> None:
    memory = WarmMemory("a", Evidence(4, 0.084, 0.022), "chat", "tiny")
    assert recall(tmp_path) is None
    remember(tmp_path, memory, 1.0)
    assert recall(tmp_path) == memory
    (tmp_path / "warm.json").write_text('{"boot": "a", "warm": true}')
    assert recall(tmp_path) is None


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        (
            {"cause": "exited", "exit_code": 0, "signal": None, "last_lines": ["a", "b ", ""]},
            "the engine exited, exit code 0, last line: b",
        ),
        (
            {"cause": "engine-process-died", "exit_code": None, "signal": 9, "last_lines": []},
            "a process of the engine died, signal 9 (SIGKILL)",
        ),
        ({"cause": "exited", "exit_code": None, "signal": 200}, "the engine exited, signal 200"),
    ],
)
def test_how_a_boot_ended(fields: dict[str, Any], how: str) -> None:
    told = lifecycle_event(event("boot-ended", 1.0, "a", **fields), Path("/run"), None)
    assert told == BootEnded("a", how)
