"""Finds, watches and ends processes, by what /proc shows."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ENGINE_TITLE = b"VLLM::"
PR_SET_CHILD_SUBREAPER = 36
# A process that this user may not see is none of the engine's.
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    state: str
    exit_code: int  # as waitpid() gives it; only a zombie has one, and 0 where it is not shown
    name: str = ""  # of the program, at most 15 characters

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.state not in ("Z", "X")


def read_process(pid: int) -> Process | None:
    """The process, or None when it does not exist any more."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except _GONE:
        return None
    return parse_stat(line)


def parse_stat(line: bytes) -> Process:
    """Read a line of /proc/PID/stat; the name in it may hold spaces and parentheses."""
    head, _, tail = line.rpartition(b")")
    fields = tail.split()
    pid, _, name = head.partition(b" (")
    return Process(
        pid=int(pid),
        parent=int(fields[1]),
        state=fields[0].decode(),
        exit_code=int(fields[52 - 3]),  # field 52 of proc_pid_stat(5), counted from field 3
        name=name.decode(errors="replace"),
    )


def descendants(root: int) -> list[Process]:
    """Every process below `root`, at any depth, zombies too."""
    table = [
        process
        for name in os.listdir("/proc")
        if name.isdigit() and (process := read_process(int(name))) is not None
    ]
    return below(root, table)


def below(root: int, table: Iterable[Process]) -> list[Process]:
    """The processes of `table` that descend from `root`."""
    children: dict[int, list[Process]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    parents = [root]
    while parents:
        here = children.pop(parents.pop(), [])
        found += here
        parents += [process.pid for process in here]
    return found


def is_engine_process(pid: int) -> bool:
    """Whether the process bears one of vLLM's own titles.

    vLLM sets both names; the short one (`comm`) has at most 15 characters.
    """
    return any(_starts_with_title(Path(f"/proc/{pid}/{name}")) for name in ("comm", "cmdline"))


def _starts_with_title(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(ENGINE_TITLE)) == ENGINE_TITLE
    except _GONE:
        return False


def open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process dies.

    None when it is gone, or where the kernel or a sandbox has no pidfd: then the next look at
    /proc finds the death.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, as PID 1 is without asking.

    Needed when another process is PID 1: with a shared process namespace, or outside a container.
    """
    if os.getpid() != 1:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> dict[int, int]:
    """Collect every child that has ended: pid -> wait status."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone already, or belong to another user."""
    try:
        os.kill(pid, number)
    except _GONE:
        return


def send_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group that may be gone already, or belong to another user."""
    try:
        os.killpg(group, number)
    except _GONE:
        return
