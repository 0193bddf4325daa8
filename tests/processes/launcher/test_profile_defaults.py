"""What a profile adds, from the launcher's option to the engine that runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from launcher_process import ENVIRONMENT, Launcher, fake

Launch = Callable[..., Launcher]
WANTED: dict[str, Any] = {
    "arguments": [["--performance-mode=throughput"], ["--cudagraph-capture-sizes", "1", "2"]],
    "environment": {"VLLM_ENABLE_STARTUP_PLAN": "1"},
}
OPTION = f"--defaults={json.dumps(WANTED)}"


@pytest.fixture
def vllm(tmp_path: Path) -> dict[str, str]:
    """The environment of an image whose vLLM lacks one option, and must not be imported."""
    package = tmp_path / "site/vllm"
    (package / "engine").mkdir(parents=True)
    (package / "engine/arg_utils.py").write_text('"--cudagraph-capture-sizes"')
    (package / "envs.py").write_text('"VLLM_ENABLE_STARTUP_PLAN"')
    (package / "__init__.py").write_text("raise SystemExit('vLLM was imported')")
    return {"PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(tmp_path / "site")])}


def first_line(launcher: Launcher) -> Any:
    return json.loads((launcher.run_dir.parent / "stdout").read_text().splitlines()[0])


def test_the_engine_is_given_what_its_vllm_has(launch: Launch, vllm: dict[str, str]) -> None:
    launcher = launch(fake("arguments", "/models/m", "--port=1"), OPTION, environment=vllm)
    launcher.wait_ready()
    given = ["--cudagraph-capture-sizes", "1", "2"]
    assert first_line(launcher)[2:] == ["/models/m", *given, "--port=1"]
    assert launcher.wait_event("launcher-started")["defaults"] == {
        "added": [*given, "VLLM_ENABLE_STARTUP_PLAN=1"],
        "left_out": {"--performance-mode": "vLLM does not have it"},
    }
    assert (
        "--performance-mode of spec.profile is left out"
        in (launcher.run_dir.parent / "stderr").read_text()
    )


def test_so_is_its_environment(launch: Launch, vllm: dict[str, str]) -> None:
    option = f"--defaults={json.dumps({'environment': WANTED['environment']})}"
    launcher = launch(fake("environment"), option, "--max-failed-boots=1", environment=vllm)
    launcher.exit_code()
    assert first_line(launcher)["VLLM_ENABLE_STARTUP_PLAN"] == "1"


def test_the_boot_to_compare_with_is_not(launch: Launch, vllm: dict[str, str]) -> None:
    reference = json.dumps(fake("arguments", "/models/m", "--own"))
    launcher = launch(fake("serve"), OPTION, f"--reference-argv={reference}", environment=vllm)
    launcher.wait_ready()
    assert first_line(launcher)[2:] == ["/models/m", "--own"]


def test_without_a_profile_nothing_is_told(launch: Launch) -> None:
    launcher = launch(fake("serve"))
    assert "defaults" not in launcher.wait_event("launcher-started")


def test_a_wrong_option_is_a_usage_error(launch: Launch) -> None:
    assert launch(fake("serve"), "--defaults=[]").exit_code() == 2
