"""Configuration, canary, memory, culprits and messages about how a boot ended."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from warmpod.engine import EngineTraits
from warmpod.protocol import SIDECAR_CONFIG_VARIABLE
from warmpod.sidecar.boots import LauncherEvent
from warmpod.sidecar.canary import Canary
from warmpod.sidecar.config import ConfigError, read_config
from warmpod.sidecar.culprits import Culprits
from warmpod.sidecar.engine import EngineError, EngineTimeoutError
from warmpod.sidecar.launcher_events import lifecycle_event
from warmpod.sidecar.lifecycle import BootEnded, Evidence
from warmpod.sidecar.memory import WarmMemory, recall, remember
from warmpod.sidecar.record import Record

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
    "engine": asdict(EngineTraits(max_num_seqs=8, lora_modules=("sql",))),
    "api_key_env": "WARMPOD_ENGINE_API_KEY",
    "tls_verify": False,
}


def test_config() -> None:
    environment = {SIDECAR_CONFIG_VARIABLE: json.dumps(GIVEN), "WARMPOD_ENGINE_API_KEY": "secret"}
    config = read_config(environment)
    assert config.base_url == "http://127.0.0.1:8000"
    assert config.api_key == "secret"
    assert config.warmup.prompt_tokens == (16, 128)
    assert config.engine == EngineTraits(max_num_seqs=8, lora_modules=("sql",))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "not set"),
        ("{", "not JSON"),
        (json.dumps({**GIVEN, "warmup": {**GIVEN["warmup"], "onFailure": "Panic"}}), "Panic"),
        (json.dumps({**GIVEN, "warmup": {"stallSeconds": "long"}}), "stallSeconds"),
        (json.dumps({**GIVEN, "engine": {}}), "max_model_len"),
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
        self.asked = 0

    async def progress(self) -> float | None:
        return self._progress.pop(0)

    async def generate(self, *_: object, canary: bool) -> None:
        assert canary
        self.asked += 1
        if self._error is not None:
            raise self._error


TIMEOUT = EngineTimeoutError("no answer in 10 s")


@pytest.mark.parametrize(
    ("error", "progress", "lives"),
    [
        pytest.param(None, [1, 1], True, id="answered"),
        pytest.param(TIMEOUT, [1, 1, 1], False, id="hangs"),
        pytest.param(TIMEOUT, [1, 2, 2], True, id="busy with users"),
        pytest.param(TIMEOUT, [None, 2, 2], False, id="unknown progress before"),
        pytest.param(TIMEOUT, [1, None, None], False, id="metrics hang too"),
        pytest.param(EngineError("503 full", 503), [1, 2, 2], True, id="queue full"),
        pytest.param(EngineError("503 paused", 503), [1, 1, 1], False, id="refuses, does nothing"),
        pytest.param(EngineError("500 oops", 500), [1, 2, 2], False, id="a real error"),
        pytest.param(EngineError("refused"), [1, 2, 2], False, id="not reachable"),
    ],
)
async def test_canary(error: EngineError | None, progress: list[float | None], lives: bool) -> None:
    engine: Any = ScriptedEngine(error, progress)
    result = await Canary(engine, "chat", "tiny").check()
    assert (result.problem == "") is lives
    assert result.timed_out is (error is TIMEOUT and not lives)


@pytest.mark.parametrize(
    ("later", "asked", "idle"),
    [
        pytest.param(100 + 500, 1, False, id="users were served: not asked"),
        pytest.param(100 + 5, 2, True, id="only our own tokens: asked"),
        pytest.param(None, 2, False, id="unknown: asked"),
    ],
)
async def test_canary_yields_to_users(later: float | None, asked: int, idle: bool) -> None:
    scripted = ScriptedEngine(None, [100.0, 100.0, later, later])
    engine: Any = scripted
    canary = Canary(engine, "chat", "tiny")
    await canary.check()
    await canary.check()
    assert (scripted.asked, canary.idle) == (asked, idle)


def event(name: str, ts: float, boot: str = "", **fields: Any) -> LauncherEvent:
    return LauncherEvent(ts, boot, name, fields)


def test_memory(tmp_path: Path) -> None:
    memory = WarmMemory("a", Evidence(4, 0.084, 0.022), "chat", "tiny", ("one two",))
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
    told = lifecycle_event(event("boot-ended", 1.0, "a", **fields), Path("/run"), None, 1.0)
    assert told == BootEnded("a", how)


@pytest.mark.parametrize("tried", ["sampler/logprobs", "user/ours#1a2b3c", "adapter/sql/chat"])
def test_feature_that_killed_the_engine_when_first_played_is_a_culprit(tried: str) -> None:
    culprits = Culprits()
    record = Record(playing=tried)
    if tried.startswith("sampler/"):
        record.now_trying(tried)
    culprits.boot_died("a", record)
    assert culprits.buckets == (tried,)
    assert list(culprits.notes()) == [f"{tried} is left out: boot a died when it was first played"]


@pytest.mark.parametrize(
    ("tried", "succeeded", "playing"),
    [
        pytest.param({"x"}, {"x"}, "x", id="it had been played before"),
        pytest.param(set(), set(), "chat/stream", id="every engine must do it"),
        pytest.param({"x"}, set(), "", id="nothing was played"),
    ],
)
def test_no_culprit(tried: set[str], succeeded: set[str], playing: str) -> None:
    culprits = Culprits()
    culprits.boot_died("a", Record(tried=tried, succeeded=succeeded, playing=playing))
    assert culprits.buckets == ()
