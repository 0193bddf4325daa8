import json
import logging
from pathlib import Path

import pytest

from unit.weights.models import SHARDS, make_model
from warmpod.agent import fill, main
from warmpod.agent.config import AgentConfig, Medium
from warmpod.protocol import AGENT_CONFIG_VARIABLE, RECEIPT_NAME
from warmpod.weights import manifest


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    source = make_model(tmp_path / "source")
    manifest.write(source, manifest.from_directory(source))
    (tmp_path / "target").mkdir()
    return AgentConfig(
        model="tiny",
        model_uid="u-1",
        revision="0123456789",
        medium=Medium.POD_MEMORY,
        source=source,
        target=tmp_path / "target",
    )


@pytest.fixture
def termination_log(tmp_path: Path) -> Path:
    (tmp_path / "termination-log").touch()
    return tmp_path / "termination-log"


def test_fills_once(config, termination_log) -> None:
    assert fill.run(config, termination_log) == 0
    written = (config.target / RECEIPT_NAME).stat().st_mtime_ns
    assert fill.run(config, termination_log) == 0
    assert (config.target / RECEIPT_NAME).stat().st_mtime_ns == written
    assert termination_log.read_text() == ""


def missing(source: Path) -> str:
    (source / SHARDS[1]).unlink()
    return f"WeightsMissing: {SHARDS[1]}: missing"


def flipped(source: Path) -> str:
    (source / SHARDS[1]).write_bytes(b"\x09" * 9000)
    return f"DigestMismatch: {SHARDS[1]}: sha256 is"


@pytest.mark.parametrize("spoil", [missing, flipped])
def test_a_bad_file_is_the_last_word(config, termination_log, spoil, caplog) -> None:
    message = spoil(config.source)
    assert fill.run(config, termination_log) == 1
    assert termination_log.read_text().startswith(message)
    assert caplog.messages[-1] == termination_log.read_text()
    assert not (config.target / RECEIPT_NAME).exists()


def test_too_little_room_is_the_last_word(config, termination_log, monkeypatch) -> None:
    monkeypatch.setattr("warmpod.agent.memory._limit", lambda: 4096)
    assert fill.run(config, termination_log) == 1
    assert termination_log.read_text().startswith("MemoryTooSmall: ")


def test_works_where_there_is_no_termination_log(config, tmp_path) -> None:
    (config.source / SHARDS[1]).unlink()
    assert fill.run(config, tmp_path / "absent") == 1
    assert not (tmp_path / "absent").exists()


def test_the_command_line(config, monkeypatch, caplog) -> None:
    document = {
        "model": "tiny",
        "model_uid": "u",
        "revision": "r",
        "medium": "PodMemory",
        "source": str(config.source),
        "target": str(config.target),
    }
    monkeypatch.setenv(AGENT_CONFIG_VARIABLE, json.dumps(document))
    assert main.run(["fill"]) == 0
    assert main.run(["dance"]) == 2
    assert main.run(["fill", "more"]) == 2


def test_a_missing_configuration_is_one_clear_line(monkeypatch, caplog) -> None:
    monkeypatch.delenv(AGENT_CONFIG_VARIABLE, raising=False)
    with caplog.at_level(logging.ERROR):
        assert main.run([]) == 1
    assert caplog.messages == [f"environment variable {AGENT_CONFIG_VARIABLE} is not set"]
