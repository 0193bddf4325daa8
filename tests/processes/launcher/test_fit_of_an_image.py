"""What an engine stands on, from the packages of its image to the launcher's events."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from launcher_process import ENVIRONMENT, Launcher, fake

Launch = Callable[..., Launcher]


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """An image whose torch must not be imported, and is not the one that vLLM asks for."""
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch/__init__.py").write_text("raise SystemExit('torch was imported')")
    (site / "torch/version.py").write_text("__version__ = '2.10.0+cu130'\ncuda = '13.0'\n")
    (site / "vllm-0.26.0.dist-info").mkdir()
    (site / "vllm-0.26.0.dist-info/METADATA").write_text(
        "Name: vllm\nVersion: 0.26.0\nRequires-Dist: torch==2.11.0\n"
    )
    return site


def test_a_warning_keeps_no_engine_from_starting(launch: Launch, packages: Path) -> None:
    path = os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(packages)])
    launcher = launch(fake("serve"), environment={"PYTHONPATH": path})
    told = launcher.wait_event("fit")
    launcher.wait_ready()
    assert told["boot"] == launcher.wait_event("boot-started")["boot"]
    assert (told["torch"], told["built_with"], told["vllm"]) == (
        "2.10.0+cu130",
        "CUDA 13.0",
        "0.26.0",
    )
    (misfit,) = told["misfits"]
    assert (misfit["reason"], misfit["sure"]) == ("EngineImageMismatch", False)
    assert launcher.events("failure") == []
    assert "perhaps" in (launcher.run_dir.parent / "stderr").read_text()
