"""Weights that lie where engines read them, in an image volume, a claim or a folder of the node:
verified there, and never written."""

from __future__ import annotations

import logging
from pathlib import Path

from warmpod.agent.places.weights import Check, Doubts, Survey, objected, unchecked
from warmpod.agent.progress import Progress, Stage
from warmpod.agent.sources.lookup import Lookup, SourceReplaced, Standing
from warmpod.agent.sources.origin import Origin
from warmpod.weights import receipt as receipts
from warmpod.weights.receipt import Receipt
from warmpod.weights.verify import expectations, unverified, verify

log = logging.getLogger(__name__)


class InPlaceWeights:
    """The receipt is the agent's own, because the directory cannot be written."""

    pinned = None

    def __init__(
        self,
        directory: Path,
        receipt_path: Path,
        origin: Origin | None = None,
        check: Check = unchecked,
        lookup: Lookup | None = None,
    ) -> None:
        self.directory = directory
        self.origin = origin
        self._check = check
        self._standing = Standing(lookup, directory, origin)
        self.doubts = Doubts()
        self._receipt_path = receipt_path
        self._receipt = receipts.load(receipt_path)

    def survey(self) -> Survey:
        self._look_up()
        expected = expectations(self.directory)
        if expected.findings:
            return Survey(expected, expected.findings)
        found = unverified(self.directory, expected, self._receipt)
        survey = Survey(expected, self.doubts.beside(found))
        return objected(survey, self.directory, self._check)

    def prepare(self, progress: Progress) -> Survey:
        self._look_up()
        expected = expectations(self.directory)
        if expected.findings:
            return Survey(expected, expected.findings)
        with self.doubts.settled() as doubted:
            receipt = self._receipt.without(doubted)
            # At once: the next agent must not believe what this one was killed over.
            self._keep(receipt)
            if not receipt.knows(self.directory, (file.path for file in expected.files)):
                progress.begin(Stage.VERIFYING, expected.size)
            result = verify(self.directory, expected, receipt, progress.watch)
            self._keep(result.receipt)
        self._look_up()  # reading may have taken minutes
        return objected(Survey(expected, result.findings), self.directory, self._check)

    def known(self) -> Receipt:
        return self._receipt

    def _look_up(self) -> None:
        try:
            self._standing.check()
        except SourceReplaced:
            # Inodes of files that are gone are given to new ones: the next agent must read all.
            self._receipt_path.unlink(missing_ok=True)
            raise

    def _keep(self, receipt: Receipt) -> None:
        if receipt == self._receipt:
            return
        self._receipt = receipt
        # Without the directory (none was mounted) only a restart of the container costs more.
        if not self._receipt_path.parent.is_dir():
            return
        try:
            receipt.save(self._receipt_path)
        except OSError as error:
            log.warning("the next agent will read all files again: %s", error)
            self._receipt_path.unlink(missing_ok=True)
