"""`warmpod pack` as a process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

SHARD_BYTES = 3_000_000
SHARDS = 6

Pack = Callable[..., subprocess.Popen[str]]


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status, standard output, and the rest."""
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors
