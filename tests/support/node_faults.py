"""Faults of the one real node; what was changed is as it was when a block ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.waiting import wait_until

PROGRAM = Path(__file__).resolve().parents[2] / "hack" / "cluster" / "cluster"
KUBELET_KIND = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
}
# Collects images whatever the disk has left, and however new they are. The age is a flag because
# the configuration file takes 0 for the default.
COLLECT_IMAGES = (
    "--image-gc-high-threshold=2",
    "--image-gc-low-threshold=1",
    "--minimum-image-ttl-duration=0s",
)
KUBELET_LOG = Path("/var/lib/warmpod-cluster/logs/kubelet.log")
NOT_COLLECTED = "Image garbage collection failed once"
COLLECTIONS = 10
COLLECTION_LIMIT_S = 180  # a big image takes half a minute


def reboot() -> None:
    """A restart of the machine, as far as pods, kubelet and containerd can tell."""
    _cluster("reboot")


def restart(process: str) -> None:
    """Restarts kubelet, containerd or another process; pods go on."""
    _cluster("restart", process)


@contextmanager
def kubelet_settings(folder: Path, **fields: Any) -> Iterator[None]:
    """A kubelet with other values in its configuration; `folder` is empty and for its file."""
    (folder / "10-tests.conf").write_text(json.dumps(KUBELET_KIND | fields))
    try:
        _cluster("restart", "kubelet", f"--config-dir={folder}")
        yield
    finally:
        restart("kubelet")


def collect_unused_images(is_collected: Callable[[], bool]) -> None:
    """Has the kubelet collect images until something is gone.

    It collects at its start, then every five minutes. At its start it may not know the size of the
    disk yet; then it is started again.
    """
    try:
        for _ in range(COLLECTIONS):
            began = KUBELET_LOG.stat().st_size
            _cluster("restart", "kubelet", *COLLECT_IMAGES)
            wait_until(
                "the kubelet has collected images",
                lambda began=began: is_collected() or NOT_COLLECTED in _logged_since(began),
                timeout_s=COLLECTION_LIMIT_S,
            )
            if is_collected():
                return
        raise AssertionError(f"nothing was collected in {COLLECTIONS} starts of the kubelet")
    finally:
        restart("kubelet")


def _logged_since(place: int) -> str:
    with KUBELET_LOG.open("rb") as log:
        log.seek(place)
        return log.read().decode(errors="replace")


def _cluster(*arguments: str) -> None:
    completed = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
