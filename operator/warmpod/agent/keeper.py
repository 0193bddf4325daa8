"""One look at a set of weights after another: make right, make resident, measure."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from warmpod import reasons
from warmpod.agent.config import Medium
from warmpod.agent.copies.filling import NoRoom
from warmpod.agent.lifecycle import Facts, Verdict, decide
from warmpod.agent.places.weights import Survey, Weights
from warmpod.agent.progress import Progress, Snapshot, Stage
from warmpod.agent.residency import memory
from warmpod.agent.residency.holder import Holder
from warmpod.agent.residency.scrub import changed_content
from warmpod.agent.sources.lookup import SourceReplaced
from warmpod.agent.staging import SourceError
from warmpod.weights.findings import summary
from warmpod.weights.verify import Expectations

log = logging.getLogger(__name__)

# A loss is shown for at least so long before it is repaired, so that a repair within milliseconds
# does not hide it from who looks at the newest state only.
SHOWN_SECONDS = 2.0


class Keeper:
    """`look` runs in one thread, over and over, `scrub` in another; `facts` may be asked from any.
    `tell` returns when the API server knows the present facts, or after a bounded time."""

    def __init__(
        self,
        medium: Medium,
        weights: Weights,
        progress: Progress,
        tell: Callable[[], None],
    ) -> None:
        self._medium = medium
        self._weights = weights
        self._progress = progress
        self._tell = tell
        self._holder = Holder()
        self._lock = threading.Lock()
        self._facts = Facts(medium, Snapshot(Stage.VERIFYING))
        self.reloads = 0
        self.repairs = 0
        self.scrub_seconds: float | None = None

    def facts(self) -> Facts:
        """What is known now. While content is being read, nothing older counts."""
        now = self._progress.snapshot()
        if now.stage is not Stage.CHECKED:
            return Facts(self._medium, now, total=now.total)
        with self._lock:
            return self._facts

    def look(self) -> None:
        """Raises Cancelled when the process stops, and SourceReplaced when it has to end."""
        try:
            facts = self._look()
        except SourceReplaced as error:
            self._publish(self._failed(reasons.SOURCE_REPLACED, str(error)))
            self._tell()
            raise
        except SourceError as error:
            facts = self._failed(error.reason, str(error))
        except NoRoom as error:
            facts = self._failed(reasons.MEMORY_TOO_SMALL, str(error))
        except OSError as error:
            log.exception("the weights could not be read")
            origin = self._weights.origin
            words = origin.unreadable(error) if origin is not None else str(error)
            facts = self._failed(reasons.WEIGHTS_NOT_READABLE, words)
        self._publish(facts)

    def scrub(self) -> None:
        """Read everything again; what is wrong is put right by the next look. Raises Cancelled."""
        began = time.monotonic()
        # Not through `watch`, which would count it as progress.
        found = changed_content(
            self._weights.directory, self._weights.known(), lambda _: self._progress.watch(0)
        )
        for finding in found:
            log.warning("%s", finding)
            self._weights.doubts.add([finding])
        self.scrub_seconds = time.monotonic() - began

    def _look(self) -> Facts:
        survey = self._weights.survey()
        if survey.findings:
            if decide(self._facts).ready:
                log.warning("no longer resident: %s", summary(survey.findings))
                self.repairs += 1
                self._show_loss(self._facts_of(survey))
            survey = self._weights.prepare(self._progress)
        facts = self._facts_of(survey)
        if facts.findings or self._medium is Medium.POD_MEMORY:
            return facts
        return self._make_resident(survey.expected, facts)

    def _facts_of(self, survey: Survey) -> Facts:
        return Facts(
            self._medium,
            Snapshot(Stage.CHECKED),
            total=survey.expected.size,
            files=len(survey.expected.files),
            has_manifest=survey.expected.has_manifest,
            findings=survey.findings,
            repairs=survey.repairs,
            origin=self._weights.origin,
            pinned=self._weights.pinned,
        )

    def _failed(self, reason: str, message: str) -> Facts:
        return Facts(
            self._medium,
            Snapshot(Stage.CHECKED),
            total=self._facts.total,
            problem=Verdict(False, reason, message),
        )

    def _make_resident(self, expected: Expectations, facts: Facts) -> Facts:
        self._holder.map(self._weights.directory / file.path for file in expected.files)
        before = self._holder.measure()
        lost = before.total - before.resident
        shortage = memory.shortage(lost, memory.measure())
        if shortage is not None:
            return replace(
                facts,
                measurement=before,
                problem=Verdict(False, reasons.MEMORY_TOO_SMALL, shortage),
            )
        if self._facts.measurement is None:
            self._progress.begin(Stage.LOADING, facts.total)
        elif lost and decide(self._facts).ready:
            self.reloads += 1
            log.warning("%d of %d bytes were dropped from memory", lost, before.total)
            self._show_loss(replace(facts, measurement=before))
        self._holder.load(self._progress.watch)
        # Reading takes minutes, in which a file may have been written to.
        now = self._weights.survey() if lost else None
        if now is not None and now.findings:
            return self._facts_of(now)
        return replace(facts, measurement=self._holder.measure())

    def _show_loss(self, facts: Facts) -> None:
        """Said before it is repaired: an engine that starts just now reads from disk, or worse."""
        self._publish(facts)
        self._tell()
        self._progress.pause(SHOWN_SECONDS)

    def _publish(self, facts: Facts) -> None:
        with self._lock:
            self._facts = facts
        self._progress.finish()
