"""Faults of the one real node; what was changed is as it was when a block ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parents[2] / "hack" / "cluster" / "cluster"
KUBELET_KIND = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
}
# Collects images whatever the disk has left, and however new they are. The age is a flag because
# the configuration file takes 0 for the default; a kubelet collects at its start, then every five
# minutes.
COLLECT_IMAGES = (
    "--image-gc-high-threshold=2",
    "--image-gc-low-threshold=1",
    "--minimum-image-ttl-duration=0s",
)


def reboot() -> None:
    """A restart of the machine, as far as pods, kubelet and containerd can tell."""
    _cluster("reboot")


def restart(process: str) -> None:
    """Restarts kubelet, containerd or another process; pods go on."""
    _cluster("restart", process)


@contextmanager
def kubelet_flags(*flags: str) -> Iterator[None]:
    """A kubelet with further flags."""
    try:
        _cluster("restart", "kubelet", *flags)
        yield
    finally:
        _cluster("restart", "kubelet")


@contextmanager
def kubelet_settings(folder: Path, **fields: Any) -> Iterator[None]:
    """A kubelet with other values in its configuration; `folder` is empty and for its file."""
    (folder / "10-tests.conf").write_text(json.dumps(KUBELET_KIND | fields))
    with kubelet_flags(f"--config-dir={folder}"):
        yield


def _cluster(*arguments: str) -> None:
    completed = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
