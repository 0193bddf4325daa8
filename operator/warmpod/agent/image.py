"""Weights in an image volume: verified where they are."""

from __future__ import annotations

from pathlib import Path

from warmpod.agent.progress import Progress, Stage
from warmpod.weights import receipt as receipts
from warmpod.weights.findings import Finding
from warmpod.weights.verify import Expectations, verify


class ImageWeights:
    """Engines read the image volume themselves, so it is what has to be right."""

    def __init__(self, source: Path, state_dir: Path) -> None:
        self.directory = source
        self._receipt_path = state_dir / "receipt.json"
        self._receipt = receipts.load(self._receipt_path)

    def prepare(self, expected: Expectations, progress: Progress) -> tuple[Finding, ...]:
        if not self._receipt.vouches_for(self.directory, (file.path for file in expected.files)):
            progress.begin(Stage.VERIFYING, expected.size)
        result = verify(self.directory, expected, self._receipt, progress.watch)
        if result.receipt != self._receipt:
            self._receipt = result.receipt
            # Without the directory (none was mounted) only a restart of the container costs more.
            if self._receipt_path.parent.is_dir():
                self._receipt.save(self._receipt_path)
        return result.findings
