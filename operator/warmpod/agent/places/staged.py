"""Weights from a remote source, on the node's disk or on a claim: downloaded once for all who name
the key, verified, and complete when their receipt is there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from warmpod.agent import staging
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.disk.room import room
from warmpod.agent.places.weights import Doubts, Pinned, Survey
from warmpod.agent.progress import Progress, Stage
from warmpod.agent.sources.origin import Origin
from warmpod.agent.staging import SourceError, commit
from warmpod.agent.staging.errors import DiskFull
from warmpod.protocol import RECEIPT_NAME, REMEDY
from warmpod.quantity import human
from warmpod.reasons import NOT_RESIDENT, WEIGHTS_MISSING
from warmpod.weights import receipt as receipts
from warmpod.weights.findings import Finding, summary
from warmpod.weights.manifest import MANIFEST_NAME
from warmpod.weights.receipt import Receipt
from warmpod.weights.verify import expectations, unverified, verify

# Fetch what is missing, then what turned out to be wrong among the rest, then look once more.
ROUNDS = 3
HOPELESS_RETRY_SECONDS = 300.0


class StagedWeights:
    """Repairs itself: a file that is missing or wrong is fetched again, and no other."""

    def __init__(
        self,
        copies: NodeCopies,
        key: str,
        remote: Mapping[str, Any],
        credentials: Path | None,
        origin: Origin | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = copies.directory(key)
        self.doubts = Doubts()
        self.origin = origin
        self._copies = copies
        self._key = key
        self._remote = remote
        self._credentials = credentials
        self._refusal = Refusal(clock)
        # Outlives the receipt, which goes while a file is fetched again.
        self._proven = Receipt()

    def survey(self) -> Survey:
        with room(self._full):
            self._copies.join()
        expected = expectations(self.directory)
        if not expected.has_manifest:
            missing = Finding(MANIFEST_NAME, WEIGHTS_MISSING, "not staged yet")
            return Survey(expected, (missing,), repairs=True)
        if expected.findings:
            return Survey(expected, expected.findings, repairs=True)
        found = unverified(self.directory, expected, self.known())
        return Survey(expected, self.doubts.beside(found), repairs=True)

    def prepare(self, progress: Progress) -> Survey:
        survey = self.survey()
        if not survey.findings:
            return survey
        if self._refusal.error is None:
            # Else that stays what is shown until the source gives something.
            progress.begin(Stage.STAGING, 0)
        with room(self._full), self._copies.writing(self._key, progress.pause):
            survey = self.survey()
            # Another agent may have staged it while this one waited.
            if not survey.findings:
                return survey
            with self.doubts.settled() as doubted:
                known = Receipt([*self._proven.files, *self.known().files])
                self._proven = known.without(doubted)
                if doubted:
                    # Whoever comes after this agent was killed must not believe them either.
                    (self.directory / RECEIPT_NAME).unlink(missing_ok=True)
                return self._put_right(progress)

    @property
    def pinned(self) -> Pinned | None:
        staged = commit.noted(self.directory)
        hub = self._remote.get("huggingFace")
        return Pinned(str(hub.get("revision") or "main"), staged) if hub and staged else None

    def known(self) -> Receipt:
        return receipts.load(self.directory / RECEIPT_NAME)

    def _put_right(self, progress: Progress) -> Survey:
        for _ in range(ROUNDS):
            if (self.directory / MANIFEST_NAME).exists():
                survey = self._verify(progress)
                if not survey.findings:
                    self._proven.save(self.directory / RECEIPT_NAME)
                    return survey
                wrong = _wrong(survey)
                if not wrong:
                    continue
                self._take_away(wrong)
            self._fetch(progress)
        survey = self._verify(progress)
        if not survey.findings:
            self._proven.save(self.directory / RECEIPT_NAME)
            return survey
        if not _wrong(survey):
            return Survey(survey.expected, survey.findings, repairs=True)
        raise self._refusal.note(_hopeless(survey.findings), self._credentials)

    def _verify(self, progress: Progress) -> Survey:
        """Read what has not been read since the node started."""
        expected = expectations(self.directory)
        if expected.findings:
            return Survey(expected, expected.findings)
        if not self._proven.knows(self.directory, (file.path for file in expected.files)):
            progress.begin(Stage.VERIFYING, expected.size)
        result = verify(self.directory, expected, self._proven, progress.watch)
        self._proven = result.receipt
        return Survey(expected, result.findings)

    def _take_away(self, paths: Iterable[str]) -> None:
        """From here on the directory is in motion, so nobody may start on it. Engines that have
        such a file open keep it until they close it."""
        (self.directory / RECEIPT_NAME).unlink(missing_ok=True)
        for path in paths:
            if not (self.directory / path).is_dir():
                (self.directory / path).unlink(missing_ok=True)

    def _fetch(self, progress: Progress) -> None:
        """Have the source bring what is missing. What it brings just now it has verified; what was
        there before has yet to be read."""
        self._refusal.check(self._credentials)
        (self.directory / RECEIPT_NAME).unlink(missing_ok=True)
        begin = partial(progress.begin, Stage.STAGING)
        try:
            brought = staging.stage(
                self._remote, self._credentials, self.directory, progress.watch, begin
            )
        except SourceError as error:
            raise self._refusal.note(self._placed(error), self._credentials) from None
        self._refusal.clear()
        self._proven = Receipt([*self._proven.files, *brought.files])

    def _full(self) -> SourceError:
        free = shutil.disk_usage(self.directory.parent).free
        return self._placed(DiskFull("the disk is full", "more", human(free)))

    def _placed(self, error: SourceError) -> SourceError:
        """With the place that is full, and what to do there."""
        if self.origin is None or not isinstance(error, DiskFull):
            return error
        message = f"{self.origin.place}: {error}{REMEDY}{self.origin.room_remedy}"
        return SourceError(error.reason, message, error.retry_after)


def _wrong(survey: Survey) -> list[str]:
    """Files to bring again. One that was written to while others were read may be right: it is
    read once more."""
    return [finding.path for finding in survey.findings if finding.reason != NOT_RESIDENT]


def _hopeless(findings: tuple[Finding, ...]) -> SourceError:
    words = f"{summary(findings)}; it was downloaded again and is wrong again"
    message = f"{words}{REMEDY}check the disk that it lies on"
    return SourceError(findings[0].reason, message, HOPELESS_RETRY_SECONDS)


class Refusal:
    """What the source said last when it gave nothing, and when to ask it again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._again_at = 0.0
        self._credentials: object = None
        self.error: SourceError | None = None

    def note(self, error: SourceError, credentials: Path | None) -> SourceError:
        self.error = error
        self._again_at = self._clock() + error.retry_after
        self._credentials = fingerprint(credentials)
        return error

    def clear(self) -> None:
        self.error = None

    def check(self, credentials: Path | None) -> None:
        """Raises the error again while nothing speaks for another answer."""
        if self.error is None or self._clock() >= self._again_at:
            return
        if fingerprint(credentials) == self._credentials:
            raise self.error


def fingerprint(credentials: Path | None) -> object:
    """Another one when the kubelet has brought the Secret, or another content of it. The hidden
    entries are its own; the names lead through them."""
    if credentials is None or not credentials.is_dir():
        return None
    files = sorted(path for path in credentials.iterdir() if not path.name.startswith("."))
    return [(path.name, path.read_bytes()) for path in files if path.is_file()]
