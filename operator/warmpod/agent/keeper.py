"""One look at the weights after another: verify, make resident, measure."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from warmpod.agent import memory
from warmpod.agent.config import Medium
from warmpod.agent.filling import NoRoom
from warmpod.agent.lifecycle import Facts
from warmpod.agent.progress import Progress, Stage
from warmpod.agent.residency import Holder
from warmpod.weights.findings import Finding
from warmpod.weights.verify import Expectations, expectations

log = logging.getLogger(__name__)


class Weights(Protocol):
    """Where a medium keeps the files that engines read."""

    directory: Path

    def prepare(self, expected: Expectations, progress: Progress) -> tuple[Finding, ...]:
        """Make the files right, as far as this medium can, and say what is wrong. Starts the
        stage Verifying only if content has to be read."""


class Keeper:
    """`look` runs in one thread, over and over; `facts` may be asked from any."""

    def __init__(self, medium: Medium, source: Path, weights: Weights, progress: Progress) -> None:
        self._medium = medium
        self._source = source
        self._weights = weights
        self._progress = progress
        self._holder = Holder()
        self._lock = threading.Lock()
        self._facts = Facts(medium, Stage.VERIFYING)
        self.reloads = 0

    def facts(self) -> Facts:
        """What is known now. While content is being read, nothing older counts."""
        stage, done, total = self._progress.snapshot()
        if stage is not Stage.CHECKED:
            return Facts(self._medium, stage, total=total, done=done)
        with self._lock:
            return self._facts

    def look(self) -> None:
        """Raises Cancelled when the process stops."""
        expected = expectations(self._source)
        facts = Facts(
            self._medium,
            Stage.CHECKED,
            total=expected.size,
            files=len(expected.files),
            has_manifest=expected.has_manifest,
            findings=expected.findings,
        )
        try:
            if not facts.findings:
                facts = replace(facts, findings=self._weights.prepare(expected, self._progress))
            if not facts.findings and self._medium is not Medium.POD_MEMORY:
                facts = self._make_resident(expected, facts)
        except NoRoom as error:
            facts = replace(facts, shortage=str(error))
        except OSError as error:
            log.exception("the weights could not be read")
            facts = replace(facts, error=str(error))
        self._publish(facts)

    def _make_resident(self, expected: Expectations, facts: Facts) -> Facts:
        self._holder.map(self._weights.directory / file.path for file in expected.files)
        before = self._holder.measure()
        lost = before.total - before.resident
        shortage = memory.shortage(lost, memory.measure())
        if shortage is not None:
            return replace(facts, measurement=before, shortage=shortage)
        if not self._was_resident():
            self._progress.begin(Stage.LOADING, facts.total)
        elif lost:
            # Said before it is repaired: an engine that starts just now reads from disk.
            self.reloads += 1
            log.warning("%d of %d bytes were dropped from memory", lost, before.total)
            self._publish(replace(facts, measurement=before))
        self._holder.load(self._progress.watch)
        return replace(facts, measurement=self._holder.measure())

    def _was_resident(self) -> bool:
        measurement = self._facts.measurement
        return measurement is not None and measurement.complete

    def _publish(self, facts: Facts) -> None:
        with self._lock:
            self._facts = facts
        self._progress.finish()
