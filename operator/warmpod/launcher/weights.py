"""The weights that an engine needs complete before it starts.

The agent writes a receipt into a directory when its files are complete, and takes it away while
it puts one right. The launcher holds the directory for as long as it lives: agents remove no
copy that somebody uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from warmpod.inuse import Use
from warmpod.launcher.console import say


class Weights:
    """Directories, each known by the receipt that it will hold."""

    def __init__(self, receipts: Iterable[Path]) -> None:
        self._uses = {receipt: Use(receipt, say) for receipt in receipts}

    def missing(self) -> list[Path]:
        """Receipts that are not there, or whose directory cannot be held at this moment."""
        return [receipt for receipt, use in self._uses.items() if not use.complete()]

    def gone(self) -> bool:
        """Whether a directory was removed before it was held, so that none will be complete."""
        return any(use.gone() for use in self._uses.values())
