"""What a restart of the machine does to its node, without restarting the machine."""

import contextlib
import json
import os
import shutil
import signal
import time
import uuid
from pathlib import Path

from . import settings
from .host import CGROUP_ROOT
from .settings import ClusterError
from .shell import run

KILL_TIMEOUT_S = 20.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Lies over the kernel's own, which nothing can change. Containers have a /proc of their own and
# go on seeing that one; see _age_receipts.
PLAYED_BOOT_ID = settings.STATE_DIR / "boot-id"
# Where agents note in which boots they have read the weights, and the field of the note.
RECEIPTS = (
    (settings.KUBELET_DIR, "pods/*/volumes/kubernetes.io~empty-dir/warmpod-agent/*.json"),
    (settings.NODE_DISK_DIR, "**/.warmpod-receipt.json"),
)
BOOTS_FIELD = "boots"


def kill_pods() -> None:
    """Ends every process of every pod at once, as a power cut does."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while pids := _pod_processes():
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {sorted(pids)} of pods do not end")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def forget_memory() -> None:
    """Empties the node's tmpfs: the directory of the agents, and the pods' memory volumes."""
    shutil.rmtree(settings.NODE_MEMORY_DIR, ignore_errors=True)
    for mount_point, kind in _mounts():
        if kind == "tmpfs" and mount_point.is_relative_to(settings.KUBELET_DIR):
            run("umount", "--lazy", mount_point)


def begin_another_boot() -> None:
    """The kubelet reports another boot id from now on, and no receipt is of this boot."""
    PLAYED_BOOT_ID.write_text(f"{uuid.uuid4()}\n")
    if not _boot_id_is_played():
        run("mount", "--bind", PLAYED_BOOT_ID, BOOT_ID)
    _age_receipts()


def show_own_boot_id() -> None:
    """Takes away what `begin_another_boot` laid over the kernel's boot id."""
    if _boot_id_is_played():
        run("umount", BOOT_ID)


def _age_receipts() -> None:
    """An agent that reads the kernel's boot id finds receipts of another one."""
    for root, pattern in RECEIPTS:
        for path in root.glob(pattern):
            document = json.loads(path.read_text())
            if BOOTS_FIELD in document:
                path.write_text(json.dumps(document | {BOOTS_FIELD: [str(uuid.uuid4())]}))


def _pod_processes() -> set[int]:
    """Of cgroup version 2, and of every version 1 tree; cgroups go while this looks."""
    tops = (*CGROUP_ROOT.glob("kubepods"), *CGROUP_ROOT.glob("*/kubepods"))
    groups = (Path(group) for top in tops for group, _, _ in os.walk(top))
    return {pid for group in groups for pid in _pids(group / "cgroup.procs")}


def _pids(listed: Path) -> list[int]:
    try:
        return [int(word) for word in listed.read_text().split()]
    except OSError:  # the cgroup is gone
        return []


def _boot_id_is_played() -> bool:
    return any(mount_point == BOOT_ID for mount_point, _ in _mounts())


def _mounts() -> list[tuple[Path, str]]:
    """Mount points and kinds of file systems, the newest first."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    fields = [line.split() for line in reversed(lines)]
    return [(Path(mount_point), kind) for _, mount_point, kind, *_ in fields]
