"""Read everything again now and then, in the background: a disk or a memory cell that goes bad
changes content without changing size or time.

What is read comes from the page cache where it is held there, as it does for the engines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warmpod.reasons import DIGEST_MISMATCH
from warmpod.weights.findings import Finding
from warmpod.weights.hashing import Watch, sha256_of_open
from warmpod.weights.receipt import Receipt, Seen

LOWEST_PRIORITY = 19


def changed_content(directory: Path, receipt: Receipt, watch: Watch) -> Iterator[Finding]:
    """Files that look as they did when their digest was computed, and are not. A file that is
    missing or looks different is none of them: the next look finds it."""
    for seen in receipt.files:
        try:
            with (directory / seen.path).open("rb", buffering=0) as file:
                if receipt.digest_of(seen.path, os.fstat(file.fileno())) is None:
                    continue
                sha256 = sha256_of_open(file, watch)
                facts = os.fstat(file.fileno())
        except FileNotFoundError:
            continue
        except OSError as error:
            yield Finding(seen.path, DIGEST_MISMATCH, f"cannot be read again: {error.strerror}")
            continue
        if sha256 != seen.sha256 and seen == Seen.of(seen.path, facts, seen.sha256):
            detail = f"sha256 is {sha256[:12]}…, when verified it was {seen.sha256[:12]}…"
            yield Finding(seen.path, DIGEST_MISMATCH, detail)


def background(sets: int) -> ThreadPoolExecutor:
    """A thread a set, with the lowest priority for processor and disk alike (ioprio_set(2): the
    priority for the disk follows from niceness)."""
    return ThreadPoolExecutor(sets, "scrub", initializer=_step_back)


def _step_back() -> None:
    # On Linux this is about the calling thread only.
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
