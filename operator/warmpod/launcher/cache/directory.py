"""The directory of one pod's caches: where each tool finds its own, and what the image has for it.

The tools lock and write there, so what is put there is copied.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warmpod.launcher.console import say

# DeepGEMM's variable is left alone: vLLM keeps that cache below its own.
FOLDERS = {
    "VLLM_CACHE_ROOT": "vllm",
    "TRITON_CACHE_DIR": "triton",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUDA_CACHE_PATH": "cuda",
}
# Below a home: where the tool looks by itself, and thus where an image has what was built into it.
# Our HOME and our variables hide that.
_IN_IMAGES = {
    "VLLM_CACHE_ROOT": (".cache/vllm", "vllm"),
    "TRITON_CACHE_DIR": (".triton/cache", "triton"),
    "FLASHINFER_WORKSPACE_BASE": (".cache/flashinfer", "flashinfer/.cache/flashinfer"),
}


def with_variables(environment: Mapping[str, str], directory: Path) -> dict[str, str]:
    """The engine's environment; what the image or the user has set stays."""
    ours = {name: str(directory / folder) for name, folder in FOLDERS.items()}
    return {**ours, **environment}


@dataclass(frozen=True)
class Seed:
    """`source` in the image belongs at `target`, a path below the caches' directory."""

    source: Path
    target: str


class CacheDirectory:
    """Holds what engines of this pod have compiled."""

    def __init__(self, path: Path, environment: Mapping[str, str], homes: Iterable[Path]) -> None:
        """`environment` is the engine's, `homes` are those of the image."""
        self.path = path
        self._ours = {
            name for name, folder in FOLDERS.items() if environment.get(name) == str(path / folder)
        }
        self._seeds = [
            Seed(home / source, target)
            for home in homes
            for name, (source, target) in _IN_IMAGES.items()
            if name in self._ours
        ]

    def holds(self, variable: str) -> bool:
        """Whether the tool with this variable keeps its cache here."""
        return variable in self._ours

    def is_empty(self) -> bool:
        """Whether it has no file; a directory that does not exist has none."""
        return not any(files for _, _, files in os.walk(self.path))

    def clear(self) -> None:
        """Remove all files. Folders stay, because a process that imports vLLM may count on those
        that it made. Raises OSError."""
        for folder, _, names in os.walk(self.path):
            for name in names:
                os.unlink(os.path.join(folder, name))

    def seed(self) -> None:
        """Copy what the image has, over nothing that is there. Failures are said, and cost no more
        than time."""
        try:
            for source, target in self._missing():
                _copy(source, target)
        except OSError as failed:
            say(f"the caches that the image has are not all used: {failed}")

    def _missing(self) -> Iterator[tuple[Path, Path]]:
        for seed in self._seeds:
            # A home that this user may not read is passed over by os.walk.
            for folder, _, names in os.walk(seed.source):
                below = Path(folder).relative_to(seed.source)
                for name in names:
                    target = self.path / seed.target / below / name
                    if (source := Path(folder, name)).is_file() and not target.exists():
                        yield source, target

    def is_seed(self, path: str, status: os.stat_result) -> bool:
        """Whether a file of the directory is as the image has it, so that nobody need keep it."""
        for seed in self._seeds:
            below = path.removeprefix(f"{seed.target}/")
            try:
                there = os.stat(seed.source / below) if below != path else None
            except OSError:
                continue
            if there and _state(there) == _state(status):
                return True
        return False


def _copy(source: Path, target: Path) -> None:
    """With its times: ninja, which FlashInfer builds with, goes by them. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy2(source, target)
    except OSError:
        target.unlink(missing_ok=True)  # half a library would be loaded
        raise


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def image_homes() -> list[Path]:
    """Of whoever may have run a tool while the image was built."""
    homes = [Path("/root")]
    with suppress(KeyError):  # a user id that the image does not know
        homes.insert(0, Path(pwd.getpwuid(os.getuid()).pw_dir))
    return list(dict.fromkeys(homes))
