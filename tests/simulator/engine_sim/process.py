"""Child processes with names that others look for."""

from __future__ import annotations

import ctypes
import os
import traceback
from collections.abc import Callable
from pathlib import Path

PR_SET_NAME = 15


def fork_named(title: bytes, act: Callable[[], int]) -> int:
    """Run `act` in a child with this title; returns its pid. No thread may run at this time."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        set_title(title)
        status = act()
    except BaseException:  # nothing of the parent's stack may run in the child
        traceback.print_exc()
    finally:
        os._exit(status)


def set_title(title: bytes) -> None:
    """Show `title` in /proc/PID/comm and /proc/PID/cmdline, as setproctitle does."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, ctypes.c_char_p(title), 0, 0, 0)
    # After the command's closing parenthesis the fields start at number 3; 48 and 49 are the
    # addresses of the first and the last byte of the arguments (proc_pid_stat(5)).
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[48 - 3]), int(fields[49 - 3])
    if end > start:
        shown = title[: end - start - 1].ljust(end - start, b"\0")
        ctypes.memmove(start, shown, end - start)
