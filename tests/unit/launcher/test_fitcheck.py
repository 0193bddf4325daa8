"""A sure misfit is the boot's failure; what else is known is told, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warmpod.launcher.boot import Boot, BootLock
from warmpod.launcher.events import EventLog
from warmpod.launcher.fit import check as fitcheck
from warmpod.launcher.fit.rules import Parts
from warmpod.launcher.policy import Ending

OLD_DRIVER = Parts(
    driver="550.54.15",
    gpus=("NVIDIA H100 80GB HBM3",),
    libcuda="550.54.15",
    torch="2.11.0+cu130",
    built_with="CUDA 13.0",
    vllm="0.26.0",
    vllm_torch="2.11.0",
)


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    boot = Boot("b", BootLock(tmp_path, "b"), EventLog(tmp_path / "events.jsonl"))
    yield boot
    boot.end(Ending("exited"))


def checked(
    boot: Boot, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """The events of a boot that stands on these parts."""
    monkeypatch.setattr(fitcheck, "read_parts", lambda environment: parts)
    fitcheck.check_fit(boot, {}).join()
    path = tmp_path / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_sure_misfit(boot: Boot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit, failure = checked(boot, OLD_DRIVER, tmp_path, monkeypatch)
    assert fit["driver"] == "550.54.15"
    assert (failure["event"], failure["reason"]) == ("failure", "DriverMismatch")
    assert failure["line"] == fit["misfits"][0]["text"]


def test_what_follows_from_it_is_not_told(
    boot: Boot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(boot, OLD_DRIVER, tmp_path, monkeypatch)
    boot.listener.hear("RuntimeError: No CUDA GPUs are available")
    events = checked(boot, Parts(), tmp_path, monkeypatch)
    assert [event["event"] for event in events] == ["fit", "failure"]


def test_an_image_without_vllm(boot: Boot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(boot, Parts(driver="550.54.15"), tmp_path, monkeypatch) == []
