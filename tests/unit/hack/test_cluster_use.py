"""What people see of the local cluster's program, and what it leaves for them."""

import os
import sys
import threading
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "hack" / "cluster"))

from clusterlib import commands, locks, settings


def test_crictl_finds_the_clusters_containerd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(settings, "BIN_DIR", tmp_path / "bin")
    commands.configure_crictl()
    written = yaml.safe_load((tmp_path / "bin" / "crictl.yaml").read_text())
    assert written["runtime-endpoint"] == f"unix://{settings.CONTAINERD_SOCKET}"
    assert written["image-endpoint"] == written["runtime-endpoint"]


def test_who_waits_says_for_whom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(settings, "CACHE_DIR", tmp_path)
    got_it = threading.Event()

    def second() -> None:
        with locks.only_one():
            got_it.set()

    waiting = threading.Thread(target=second)
    with locks.only_one():
        waiting.start()
        said = ""
        while "Waiting" not in said:
            said += capsys.readouterr().out
        assert not got_it.is_set()
    waiting.join()
    assert said == f"Waiting for {tmp_path}/cluster.lock (held by pid {os.getpid()}).\n"
    assert got_it.is_set()
