"""What the keeper wants of a place where weights lie, whatever the medium and the source."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warmpod.agent.progress import Progress
from warmpod.agent.sources.lookup import Lookup, Standing
from warmpod.agent.sources.origin import Origin
from warmpod.weights.findings import Finding
from warmpod.weights.receipt import Receipt
from warmpod.weights.verify import Expectations, expectations

# Who else has a say about a directory, such as a signature; asked at each look.
Check = Callable[[Path], Finding | None]


def unchecked(_: Path) -> Finding | None:
    """The Check of a source that nobody else has a say about."""
    return None


@dataclass(frozen=True)
class Survey:
    """What a directory must hold, and what keeps it from being used. `repairs`: the findings are
    about a copy of the agent's own, which it puts right by itself."""

    expected: Expectations
    findings: tuple[Finding, ...]
    repairs: bool = False


def objected(survey: Survey, directory: Path, check: Check) -> Survey:
    """With what the check finds, which is asked only about files that nothing else speaks
    against."""
    objection = None if survey.findings else check(directory)
    return survey if objection is None else Survey(survey.expected, (objection,))


@dataclass(frozen=True)
class Pinned:
    """The revision that the spec names, and the commit that it was when the files were staged."""

    revision: str
    commit: str

    @property
    def moves(self) -> bool:
        """Whether another node may have found another commit."""
        return not self.commit.startswith(self.revision)

    def __str__(self) -> str:
        return f"{self.revision} = {self.commit[:7]}"


class Doubts:
    """Files whose receipt says that they are right, while somebody who read them says not.
    Added from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._findings: dict[str, Finding] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        with self._lock:
            self._findings.update({finding.path: finding for finding in findings})

    def beside(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """These findings and the doubts, which say more where both name a file."""
        with self._lock:
            return tuple((({f.path: f for f in findings}) | self._findings).values())

    @contextmanager
    def settled(self) -> Iterator[frozenset[str]]:
        """The doubted files. They are read again meanwhile; if that fails, they stay doubted."""
        with self._lock:
            doubted = dict(self._findings)
        yield frozenset(doubted)
        with self._lock:
            for path, finding in doubted.items():
                if self._findings.get(path) is finding:
                    del self._findings[path]


class Weights(Protocol):
    """One set of weights in the place where it is read from. `origin` says what a person can do
    about findings that are left; None where a template from before it was rendered."""

    directory: Path
    doubts: Doubts
    origin: Origin | None

    @property
    def pinned(self) -> Pinned | None:
        """Of a repository only; None also while nothing is staged."""

    def survey(self) -> Survey:
        """Look without reading content. Raises SourceError, SourceReplaced."""

    def prepare(self, progress: Progress) -> Survey:
        """Put right what can be put right, and tell what is left. Begins a stage only when
        content has to be read. Raises SourceError, SourceReplaced, NoRoom, OSError, Cancelled."""

    def known(self) -> Receipt:
        """What was read since the node started."""


class Untouched:
    """A source that is only copied from: verified on the way into the copy."""

    pinned = None

    def __init__(
        self,
        directory: Path,
        origin: Origin | None = None,
        check: Check = unchecked,
        lookup: Lookup | None = None,
    ) -> None:
        self.directory = directory
        self._standing = Standing(lookup, directory, origin)
        self._check = check
        self.doubts = Doubts()
        self.origin = origin

    def survey(self) -> Survey:
        self._standing.check()
        expected = expectations(self.directory)
        return objected(Survey(expected, expected.findings), self.directory, self._check)

    def prepare(self, progress: Progress) -> Survey:
        del progress  # nothing is read
        return self.survey()

    def known(self) -> Receipt:
        return Receipt()
