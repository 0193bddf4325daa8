"""The loader of the weights, from the launcher's option to the engine's command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from launcher_process import ENVIRONMENT, Launcher, fake

Launch = Callable[..., Launcher]
MULTITHREAD = '--model-loader-extra-config={"enable_multithread_load":true}'


@pytest.fixture
def vllm(tmp_path: Path) -> dict[str, str]:
    """The environment of an image with a vLLM that must not be imported."""
    package = tmp_path / "site/vllm"
    loader = package / "model_executor/model_loader/default_loader.py"
    loader.parent.mkdir(parents=True)
    loader.write_text('"enable_multithread_load"')
    (package / "__init__.py").write_text("raise SystemExit('vLLM was imported')")
    return {"PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(tmp_path / "site")])}


def command_line(launcher: Launcher) -> list[str]:
    """As the engine saw it."""
    launcher.wait_ready()
    lines = (launcher.run_dir.parent / "stdout").read_text().splitlines()
    words: list[str] = json.loads(lines[0])
    return words[2:]


def test_the_engine_is_given_the_loader(launch: Launch, vllm: dict[str, str]) -> None:
    engine = fake("arguments", "/models/m", "--port=1")
    launcher = launch(engine, "--loader=Multithread", environment=vllm)
    assert command_line(launcher) == ["/models/m", MULTITHREAD, "--port=1"]
    assert MULTITHREAD in launcher.wait_event("boot-started")["argv"]
    told = launcher.wait_event("loader")
    assert told["boot"] == launcher.wait_event("boot-started")["boot"]
    assert (told["wanted"], told["used"], told["why"]) == (
        "Multithread",
        "Multithread",
        "vLLM has it",
    )


def test_an_engine_without_the_loader_starts_all_the_same(
    launch: Launch, vllm: dict[str, str]
) -> None:
    engine = fake("arguments", "/models/m", "--port=1")
    launcher = launch(engine, "--loader=Tensorizer", environment=vllm)
    assert command_line(launcher) == ["/models/m", "--port=1"]
    told = launcher.wait_event("loader")
    assert (told["used"], told["why"]) == ("Auto", "vLLM does not have it")
    assert "not loaded by Tensorizer" in (launcher.run_dir.parent / "stderr").read_text()


def test_the_boot_to_compare_with_is_given_its_own(launch: Launch, vllm: dict[str, str]) -> None:
    reference = json.dumps(fake("arguments", "/models/m"))
    options = [f"--reference-argv={reference}", "--reference-loader=Multithread"]
    launcher = launch(fake("serve"), *options, environment=vllm)
    assert command_line(launcher) == ["/models/m", MULTITHREAD]
    assert launcher.wait_event("boot-started")["reference"] is True
    assert len(launcher.events("loader")) == 1


def test_no_loader_is_no_event(launch: Launch) -> None:
    launcher = launch(fake("serve"))
    launcher.wait_ready()
    assert launcher.events("loader") == []
