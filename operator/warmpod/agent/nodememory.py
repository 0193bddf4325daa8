"""Weights copied into the node's tmpfs, shared by every engine pod of the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from warmpod.agent.filling import NoRoom, TargetFull, fill, missing_of
from warmpod.agent.lookup import SourceReplaced
from warmpod.agent.nodecopy import NodeCopies
from warmpod.agent.progress import Progress, Stage
from warmpod.agent.weights import Doubts, Pinned, Survey, Weights
from warmpod.protocol import NODE_ROOT, RECEIPT_NAME, REMEDY
from warmpod.weights import receipt as receipts
from warmpod.weights.findings import Finding
from warmpod.weights.receipt import Receipt, Seen
from warmpod.weights.verify import Expectations


class NodeMemoryWeights:
    """Engines read the copy, so that is what has to be right; the origin only feeds it."""

    def __init__(self, origin: Weights, copies: NodeCopies, key: str) -> None:
        self.directory = copies.directory(key)
        self.doubts = Doubts()
        # A bad copy is made again, so what is left is what is wrong with the origin.
        self.origin = origin.origin
        self._origin = origin
        self._copies = copies
        self._key = key
        self._seen: Receipt | None = None
        self._bad: list[tuple[Finding, Seen]] = []

    @property
    def pinned(self) -> Pinned | None:
        return self._origin.pinned

    def survey(self) -> Survey:
        self._copies.join()
        with self._standing():
            origin = self._origin.survey()
        if origin.findings:
            return origin
        self._seen = self.known()
        missing = missing_of(self.directory, origin.expected, self._seen)
        return Survey(origin.expected, self.doubts.beside(missing), repairs=True)

    def prepare(self, progress: Progress) -> Survey:
        with self._standing():
            origin = self._origin.prepare(progress)
        if origin.findings:
            return origin
        if bad := self._still_bad():
            return Survey(origin.expected, bad)
        with self._copies.writing(self._key, progress.pause):
            # Another agent may have filled it while this one waited.
            if not self.survey().findings:
                return origin
            bad = self._fill(origin.expected, progress)
            self._seen = self.known()
        self._bad = [(finding, self._identity(finding)) for finding in bad]
        self._origin.doubts.add(bad)
        return Survey(origin.expected, bad)

    @contextmanager
    def _standing(self) -> Iterator[None]:
        """Whoever no longer has what its path leads to must not repair the copy, which another
        agent may have made of just that; so the origin is asked first, and also by the one that
        waited to write."""
        try:
            yield
        except SourceReplaced:
            # Without a manifest nothing else says that the copy is of another directory. One that
            # this agent has not seen was made since, by an agent that has the present one.
            if self.known() == self._seen:
                (self.directory / RECEIPT_NAME).unlink(missing_ok=True)
            raise

    def _fill(self, expected: Expectations, progress: Progress) -> tuple[Finding, ...]:
        def begin(total: int) -> None:
            progress.begin(Stage.VERIFYING, total)

        source, target = self._origin.directory, self.directory
        with self.doubts.settled() as doubted:
            try:
                return fill(source, target, expected, progress.watch, doubted, begin)
            except NoRoom:
                # Where both do not fit, the agent of the copy before this one was ended for it.
                self._copies.drop_superseded()
            try:
                return fill(source, target, expected, progress.watch, doubted, begin)
            except TargetFull as error:
                raise NoRoom(_no_room(error, f"{NODE_ROOT}/{self._key}")) from error

    def _still_bad(self) -> tuple[Finding, ...]:
        """What the last attempt found wrong with the origin, as long as that is unchanged: copying
        it again at each look would find the same."""
        return tuple(
            finding for finding, identity in self._bad if self._identity(finding) == identity
        )

    def _identity(self, finding: Finding) -> Seen:
        return Seen.of(finding.path, (self._origin.directory / finding.path).stat(), "")

    def known(self) -> Receipt:
        return receipts.load(self.directory / RECEIPT_NAME)


def _no_room(error: TargetFull, place: str) -> str:
    remedy = "remove what else fills /dev/shm there, or choose nodes with more memory in "
    return f"{error} {place} on the node{REMEDY}{remedy}spec.pod.nodeSelector"
