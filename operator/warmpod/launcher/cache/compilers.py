"""Notices compilers below the engine: FlashInfer builds kernels for minutes without a log line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from warmpod.launcher.processes import Process

# Names as in /proc/PID/stat: of ninja's builds, of CUDA's compilers, and of the host's.
COMPILERS = frozenset(
    {"ninja", "nvcc", "cicc", "ptxas", "ptxas-blackwell", "cudafe++", "hipcc", "g++", "cc1plus"}
)
# The next file of a build has its own process, so a program is over when two looks miss it.
LOOKS_UNTIL_OVER = 2
# An engine that compiles again and again must not fill the disk with events.
MAX_STARTS = 500


class Compilers:
    """Tells `compiler-started` and `compiler-ended`, once for all processes of one program."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._missed: dict[str, int] = {}  # of each running program: looks that did not see it
        self._left = MAX_STARTS

    def look(self, processes: Iterable[Process]) -> None:
        """Compare with the last look at the engine's processes."""
        running = {process.name for process in processes if process.alive} & COMPILERS
        for program in sorted(running - self._missed.keys()):
            self._start(program)
        for program in list(self._missed):
            self._missed[program] = 0 if program in running else self._missed[program] + 1
            if self._missed[program] >= LOOKS_UNTIL_OVER:
                del self._missed[program]
                self._tell("compiler-ended", program)

    def _start(self, program: str) -> None:
        if self._left > 0:
            self._left -= 1
            self._missed[program] = 0
            self._tell("compiler-started", program)
