"""Weights copied into the node's tmpfs, shared by every engine pod of the node."""

from __future__ import annotations

from pathlib import Path

from warmpod.agent.filling import fill, is_filled
from warmpod.agent.nodecopy import NodeCopy
from warmpod.agent.progress import Progress, Stage
from warmpod.weights.findings import Finding
from warmpod.weights.verify import Expectations


class NodeMemoryWeights:
    """Engines read the copy, so that is what has to be right; the image only feeds it."""

    def __init__(self, source: Path, copy: NodeCopy) -> None:
        self.directory = copy.directory
        self._source = source
        self._copy = copy

    def prepare(self, expected: Expectations, progress: Progress) -> tuple[Finding, ...]:
        self._copy.join()
        if is_filled(self.directory, expected):
            return ()
        progress.begin(Stage.VERIFYING, expected.size)
        with self._copy.writing(progress.pause):
            # Another agent may have filled it while this one waited.
            if is_filled(self.directory, expected):
                return ()
            return fill(self._source, self.directory, expected, progress.watch)
