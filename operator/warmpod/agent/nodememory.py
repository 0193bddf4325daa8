"""Weights copied into the node's tmpfs, shared by every engine pod of the node."""

from __future__ import annotations

from warmpod.agent.filling import NoRoom, TargetFull, fill, missing_of
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
        self._bad: list[tuple[Finding, Seen]] = []

    @property
    def pinned(self) -> Pinned | None:
        return self._origin.pinned

    def survey(self) -> Survey:
        self._copies.join()
        origin = self._origin.survey()
        if origin.findings:
            return origin
        return Survey(
            origin.expected,
            self.doubts.beside(missing_of(self.directory, origin.expected, self.known())),
            repairs=True,
        )

    def prepare(self, progress: Progress) -> Survey:
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
        self._bad = [(finding, self._identity(finding)) for finding in bad]
        self._origin.doubts.add(bad)
        return Survey(origin.expected, bad)

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
