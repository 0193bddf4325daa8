"""What a pod knows about its compile cache, over all lives of its launcher; and what follows. Pure,
but for the file that holds it.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from warmpod.launcher.policy import Ending

STATE_FILE = "compile-cache.json"
# Causes that the log names have nothing to do with the cache, except these: a kernel that was
# compiled for another GPU or driver, and what is only a consequence.
_MAY_BE_THE_CACHE = frozenset(
    {"WorkerDied", "EngineStartFailed", "UnsupportedGpu", "DriverMismatch"}
)


@dataclass(frozen=True)
class State:
    filling: bool = False
    """What the directory holds may be half of something."""
    key: str = ""
    """Of the entry that the directory was filled from, as long as it seems good."""
    trying: str = ""
    """The boot that uses what was compiled before it, and is not warm yet."""
    refused: bool = False
    """Such a boot has died: nothing is taken from store or image any more."""
    unpublished: bool = False
    """The directory has what the store lacks."""
    foreign: bool = False
    """The directory was not empty at first, so somebody else has it, too: nothing is removed."""


class Start(enum.Enum):
    """What a life of the launcher begins with."""

    FILL = "fill"
    KEEP = "keep"
    SET_ASIDE = "set aside"
    COMPILE = "compile"


def start(state: State | None, empty: bool) -> Start:
    """`state` is None in the first life."""
    if state is None:
        return Start.FILL if empty else Start.KEEP
    if state.filling:
        return Start.FILL
    if state.trying and not state.foreign:
        return Start.SET_ASIDE
    if not empty:
        return Start.KEEP
    return Start.COMPILE if state.refused else Start.FILL


def blames_cache(ending: Ending, stopped: bool, warm: bool, reasons: Collection[str]) -> bool:
    """Whether what a boot found in its cache may be why it ended. `reasons` are those of its log.

    A crash has many causes, but to compile once more is cheap, and to crash for ever is not.
    """
    if warm or stopped or ending.cause == "stopping":
        return False
    return not set(reasons) - _MAY_BE_THE_CACHE


def load(path: Path) -> State | None:
    """None if there is none that makes sense."""
    try:
        content = json.loads(path.read_bytes())
        return State(**content)
    except (OSError, ValueError, TypeError):
        return None


def save(path: Path, state: State) -> None:
    """Whole or not at all. Raises OSError."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(state)))
    new.replace(path)
