"""Weights copied into the node's tmpfs, shared by every engine pod of the node."""

from __future__ import annotations

from warmpod.agent.filling import fill, missing_of
from warmpod.agent.nodecopy import NodeCopies
from warmpod.agent.progress import Progress, Stage
from warmpod.agent.weights import Doubts, Survey, Weights
from warmpod.protocol import RECEIPT_NAME
from warmpod.weights import receipt as receipts
from warmpod.weights.receipt import Receipt


class NodeMemoryWeights:
    """Engines read the copy, so that is what has to be right; the origin only feeds it."""

    def __init__(self, origin: Weights, copies: NodeCopies, key: str) -> None:
        self.directory = copies.directory(key)
        self.doubts = Doubts()
        # A bad copy is made again, so what is left is what is wrong with the origin.
        self.hint = origin.hint
        self._origin = origin
        self._copies = copies
        self._key = key

    def survey(self) -> Survey:
        self._copies.join()
        origin = self._origin.survey()
        if origin.findings:
            return origin
        return Survey(
            origin.expected,
            self.doubts.beside(missing_of(self.directory, origin.expected, self.known())),
        )

    def prepare(self, progress: Progress) -> Survey:
        origin = self._origin.prepare(progress)
        if origin.findings:
            return origin
        progress.begin(Stage.VERIFYING, origin.expected.size)
        with self._copies.writing(self._key, progress.pause):
            # Another agent may have filled it while this one waited.
            if not self.survey().findings:
                return origin
            with self.doubts.settled() as doubted:
                findings = fill(
                    self._origin.directory,
                    self.directory,
                    origin.expected,
                    progress.watch,
                    doubted,
                )
        self._origin.doubts.add(findings)
        return Survey(origin.expected, findings)

    def known(self) -> Receipt:
        return receipts.load(self.directory / RECEIPT_NAME)
