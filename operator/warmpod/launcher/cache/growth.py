"""Watches the engine's compile caches: growth means that something was compiled.

vLLM's own monitor does not see FlashInfer, DeepGEMM and Inductor; what they compile ends as files.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmpod.launcher.policy import UP_LOOK_SECONDS, cache_look_pause

# In this order Python's getpass, which names Inductor's directory, looks for the user.
_USER_VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")


@dataclass(frozen=True)
class Size:
    """What the caches hold."""

    files: int
    bytes: int


def cache_directories(environment: Mapping[str, str]) -> list[Path]:
    """Where an engine with this environment keeps what it compiled.

    The variables and defaults of vLLM, Triton, FlashInfer, the CUDA driver and Inductor. A
    directory inside another one is left out, so that no file counts twice.
    """
    home = Path(environment.get("HOME") or "/")
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    # FlashInfer's variable names the place of the home, not of the cache.
    flashinfer = Path(environment.get("FLASHINFER_WORKSPACE_BASE") or home)
    found = {
        Path(environment.get("VLLM_CACHE_ROOT") or cache / "vllm"),
        Path(environment.get("TRITON_CACHE_DIR") or home / ".triton/cache"),
        flashinfer / ".cache/flashinfer",
        Path(environment.get("CUDA_CACHE_PATH") or home / ".nv/ComputeCache"),
        *_inductor(environment),
    }
    return sorted(path for path in found if not found.intersection(path.parents))


def _inductor(environment: Mapping[str, str]) -> list[Path]:
    if environment.get("TORCHINDUCTOR_CACHE_DIR"):
        return [Path(environment["TORCHINDUCTOR_CACHE_DIR"])]
    temporary = environment.get("TMPDIR") or "/tmp"  # noqa: S108 - only read
    users = [environment[name] for name in _USER_VARIABLES if environment.get(name)]
    return [Path(temporary, f"torchinductor_{user}") for user in users[:1]]


def measure(directories: Iterable[Path]) -> Size:
    """Count the files below; what cannot be read, or vanishes meanwhile, counts as nothing."""
    files = size = 0
    waiting = [str(directory) for directory in directories]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                files += 1
                size += _bytes(entry)
    return Size(files, size)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


class CacheWatch(threading.Thread):
    """Looks at the caches until the boot is warm or over.

    A thread, because the main thread must notice signals and deaths while a large cache is read.
    """

    def __init__(
        self,
        directories: Iterable[Path],
        tell: Callable[..., Any],
        answers: Callable[[], bool],
        is_warm: Callable[[], bool],
        when_warm: Callable[[], None] = lambda: None,
    ) -> None:
        """`when_warm` is called at most once, and may take long."""
        super().__init__(name="cache-watch", daemon=True)
        self._directories = list(directories)
        self._tell = tell
        self._answers = answers
        self._is_warm = is_warm
        self._when_warm = when_warm
        self._over = threading.Event()
        self.seen = Size(0, 0)  # at the last look
        self._up = False
        self._told = 0

    def run(self) -> None:
        """Tell `cache-grew` with what was added, and once, when the engine answers, `caches`."""
        self.seen = measure(self._directories)
        took = time.thread_time()  # seconds of CPU time
        while not self._ended_within(cache_look_pause(self._up, self._told, took)):
            if self._is_warm():
                self._when_warm()
                return
            started = time.thread_time()
            size = measure(self._directories)
            took = time.thread_time() - started
            if not self._over.is_set():
                self._compare(size)

    def _ended_within(self, seconds: float) -> bool:
        """Wait; not longer than until an engine that starts answers: from then on it matters."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._over.wait(min(left, UP_LOOK_SECONDS)):
                return True
            if not self._up and self._answers():
                return False
        return self._over.is_set()

    def _compare(self, size: Size) -> None:
        added = size.files - self.seen.files
        if added > 0:
            self._told += 1
            self._tell("cache-grew", files=added, bytes=max(0, size.bytes - self.seen.bytes))
        self.seen = size
        if not self._up and self._answers():
            self._up = True
            self._tell("caches", files=size.files, bytes=size.bytes)

    def end(self) -> None:
        """The boot is over."""
        self._over.set()
