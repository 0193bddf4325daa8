"""Weights copied into the node's tmpfs, shared by every engine pod of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from warmpod.agent.copies import made_of
from warmpod.agent.copies.filling import NoRoom, TargetFull, fill, missing_of
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.disk.room import room
from warmpod.agent.places.weights import Doubts, Pinned, Survey, Weights
from warmpod.agent.progress import Progress, Stage
from warmpod.agent.sources.lookup import SourceReplaced
from warmpod.agent.sources.origin import Kind
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
        self._copied: made_of.Look | None = None

    @property
    def pinned(self) -> Pinned | None:
        return self._origin.pinned

    def survey(self) -> Survey:
        with room(self._full):
            self._copies.join()
        with self._standing():
            origin = self._origin.survey()
        if origin.findings:
            return origin
        self._seen = self.known()
        found = (
            *self._outdated(origin.expected),
            *missing_of(self.directory, origin.expected, self._seen),
        )
        return Survey(origin.expected, self.doubts.beside(found), repairs=True)

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
            # Before reading: one that is put right while others are copied is not bad for ever.
            before = {file.path: self._identity(file.path) for file in origin.expected.files}
            bad = self._fill(origin.expected, progress)
            self._seen = self.known()
        self._bad = [(finding, before[finding.path]) for finding in bad]
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
        source, target = self._origin.directory, self.directory
        look = self._look_of(expected)
        begin = partial(progress.begin, Stage.VERIFYING)
        with self.doubts.settled() as doubted:
            again = doubted | {finding.path for finding in self._outdated(expected)}
            copy = partial(fill, source, target, expected, progress.watch, again, begin)
            try:
                bad = copy()
            except NoRoom:
                # Where both do not fit, the agent of the copy before this one was ended for it.
                self._copies.drop_superseded()
                bad = self._or_say_where(copy)
        if not bad:
            with room(self._full):
                made_of.note(target, look)
            self._copied = look
        return bad

    def _or_say_where(self, copy: Callable[[], tuple[Finding, ...]]) -> tuple[Finding, ...]:
        try:
            return copy()
        except TargetFull as error:
            raise self._no_room(str(error)) from error

    def _full(self) -> NoRoom:
        return self._no_room("there is no room left in")

    def _no_room(self, words: str) -> NoRoom:
        remedy = "remove what else fills /dev/shm there, or choose nodes with more memory in "
        place = f"{NODE_ROOT}/{self._key} on the node"
        return NoRoom(f"{words} {place}{REMEDY}{remedy}spec.pod.nodeSelector")

    def _look_of(self, expected: Expectations) -> made_of.Look:
        """Nothing of an image: its digest names the copy."""
        image = self.origin is not None and self.origin.kind is Kind.IMAGE
        return {} if image else made_of.look_of(self._origin.directory, expected)

    def _outdated(self, expected: Expectations) -> tuple[Finding, ...]:
        """Files that were copied before they were what they are now. Where two agents see one
        source differently, each copies it once: else they would take turns for ever."""
        look = self._look_of(expected)
        return () if look == self._copied else made_of.outdated(look, made_of.noted(self.directory))

    def _still_bad(self) -> tuple[Finding, ...]:
        """What the last attempt found wrong with the origin, as long as that is unchanged: copying
        it again at each look would find the same."""
        return tuple(
            finding for finding, identity in self._bad if self._identity(finding.path) == identity
        )

    def _identity(self, path: str) -> Seen:
        return Seen.of(path, (self._origin.directory / path).stat(), "")

    def known(self) -> Receipt:
        return receipts.load(self.directory / RECEIPT_NAME)
