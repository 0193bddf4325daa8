import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from support.waiting import wait_for
from unit.weights.models import SHARDS, make_model
from warmpod.agent import fill, main
from warmpod.agent.config import AgentConfig, Medium, WeightSet
from warmpod.agent.copies.nodecopy import _in_use
from warmpod.agent.sources.origin import Kind, Origin
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
        medium=Medium.POD_MEMORY,
        sets=(WeightSet("tiny", source, target=tmp_path / "target"),),
    )


@pytest.fixture
def termination_log(tmp_path: Path) -> Path:
    (tmp_path / "termination-log").touch()
    return tmp_path / "termination-log"


def source(config: AgentConfig) -> Path:
    return config.sets[0].source


def target(config: AgentConfig) -> Path:
    return config.sets[0].target


def test_fills_once(config, termination_log) -> None:
    assert fill.run(config, termination_log) == 0
    written = (target(config) / RECEIPT_NAME).stat().st_mtime_ns
    assert fill.run(config, termination_log) == 0
    assert (target(config) / RECEIPT_NAME).stat().st_mtime_ns == written
    assert termination_log.read_text() == ""


def missing(source: Path) -> str:
    (source / SHARDS[1]).unlink()
    return f"WeightsMissing: {SHARDS[1]}: missing"


def flipped(source: Path) -> str:
    (source / SHARDS[1]).write_bytes(b"\x09" * 9000)
    return f"DigestMismatch: {SHARDS[1]}: sha256 is"


@pytest.mark.parametrize("spoil", [missing, flipped])
def test_a_bad_file_is_the_last_word(config, termination_log, spoil, caplog) -> None:
    message = spoil(source(config))
    assert fill.run(config, termination_log) == 1
    assert termination_log.read_text().startswith(message)
    assert caplog.messages[-1] == termination_log.read_text()
    assert not (target(config) / RECEIPT_NAME).exists()


def test_too_little_room_is_the_last_word(config, termination_log, monkeypatch) -> None:
    monkeypatch.setattr("warmpod.agent.residency.memory._limit", lambda: 4096)
    assert fill.run(config, termination_log) == 1
    assert termination_log.read_text().startswith("MemoryTooSmall: ")


def test_each_set_has_a_place_of_its_own_and_is_named(config, tmp_path, termination_log) -> None:
    draft = WeightSet("draft", source(config), target=tmp_path / "draft")
    both = replace(config, sets=(*config.sets, draft))
    assert fill.run(both, termination_log) == 0
    assert (tmp_path / "draft" / RECEIPT_NAME).exists()
    missing(source(config))
    assert fill.run(both, termination_log) == 1
    assert termination_log.read_text().startswith("tiny: WeightsMissing: ")


def test_remote_weights_are_waited_for_and_held(config, tmp_path, termination_log) -> None:
    staged = replace(config.sets[0], remote={"http": {"url": "http://x/"}}, key="source")
    remote = replace(config, stage_root=tmp_path, sets=(staged,))
    with ThreadPoolExecutor(1) as pool:
        filling = pool.submit(fill.run, remote, termination_log)
        wait_for(lambda: _in_use(source(config)))
        assert not (target(config) / RECEIPT_NAME).exists()
        (source(config) / RECEIPT_NAME).touch()
        assert filling.result(30) == 0
    assert not _in_use(source(config))


def test_works_where_there_is_no_termination_log(config, tmp_path) -> None:
    (source(config) / SHARDS[1]).unlink()
    assert fill.run(config, tmp_path / "absent") == 1
    assert not (tmp_path / "absent").exists()


def test_the_command_line(config, monkeypatch, caplog) -> None:
    document = {
        "model": "tiny",
        "model_uid": "u",
        "medium": "PodMemory",
        "sets": [{"name": "tiny", "source": str(source(config)), "target": str(target(config))}],
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


def test_the_last_word_names_the_source_and_its_remedy(config, termination_log) -> None:
    origin = Origin(Kind.CLAIM, "models", "llama")
    told = replace(config, sets=(replace(config.sets[0], origin=origin),))
    (source(config) / SHARDS[1]).unlink()
    assert fill.run(told, termination_log) == 1
    assert termination_log.read_text() == (
        f"WeightsMissing: claim models: llama/{SHARDS[1]}: missing, but "
        "model.safetensors.index.json names it — put the right files into claim models"
    )


def test_a_full_memory_volume_is_named_as_the_spec_names_it(
    config, termination_log, monkeypatch
) -> None:
    full = os.statvfs_result((4096, 4096, 10, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr("os.statvfs", lambda path: full)
    assert fill.run(config, termination_log) == 1
    text = termination_log.read_text()
    assert "left in the pod's memory volume — raise spec.weights.size" in text
    assert str(target(config)) not in text
