"""Copy weights into memory, file by file, verified on the way.

Every file appears whole (temporary name, then rename) and the receipt appears last: who waits
for the receipt sees all files or none. One writer at a time; the caller takes care of that.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from warmpod.agent.disk.room import room
from warmpod.agent.residency import memory
from warmpod.protocol import RECEIPT_NAME
from warmpod.quantity import human
from warmpod.reasons import DIGEST_MISMATCH, NOT_RESIDENT
from warmpod.weights import receipt as receipts
from warmpod.weights.findings import Finding
from warmpod.weights.hashing import (
    Watch,
    cores_are_idle,
    map_in_threads,
    sha256_of,
    sha256_of_open,
    unwatched,
)
from warmpod.weights.receipt import Receipt, Seen
from warmpod.weights.tree import scan
from warmpod.weights.verify import Expectations, Expected, digest_finding, unverified

# Hidden, so that it never counts as a part of the model.
TEMPORARY = ".filling"
# What receipt and notes take for each file, with all that is rounded up to whole pages.
NOTE_BYTES = 8192


class NoRoom(Exception):
    """The memory volume is too small; the message has the numbers and the remedy."""


class TargetFull(NoRoom):
    """The file system of the target is too small. The message ends where the name of the place
    follows: this module knows only its own mount of it."""

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(f"{human(needed)} of weights do not fit the {human(free)} left in")


@dataclass(frozen=True)
class Brought:
    """A file of the target, and the one of the source that it was copied from just now, where
    nothing but that one says what it should hold."""

    made: Seen
    read: Seen | None = None


def is_filled(target: Path, expected: Expectations) -> bool:
    """Whether `target` holds exactly the expected files, by its receipt."""
    return not missing_of(target, expected, receipts.load(target / RECEIPT_NAME))


def missing_of(target: Path, expected: Expectations, receipt: Receipt) -> tuple[Finding, ...]:
    """What keeps `target` from holding exactly the expected files, without reading content."""
    stray = [
        Finding(path, DIGEST_MISMATCH, "does not belong to the model")
        for path in _stray(target, expected)
    ]
    return (*unverified(target, expected, receipt), *stray)


def fill(
    source: Path,
    target: Path,
    expected: Expectations,
    watch: Watch,
    doubted: Collection[str] = (),
    begin: Callable[[int], None] = unwatched,
) -> tuple[Finding, ...]:
    """Make `target` hold exactly the expected files, and say which of them are bad in `source`, or,
    without a digest to compare with, were written to there before the last one was copied. What
    the receipt says of `doubted` files does not count. `begin` is told how many bytes are to be
    copied, once that they fit is known.

    Raises NoRoom, OSError, and what `watch` raises; whatever was finished by then is kept for
    the next attempt."""
    while True:
        outcome = _fill(source, target, expected, watch, doubted, begin)
        if isinstance(outcome, tuple):
            return outcome
        if not any(unverified(target, expected, outcome)):
            with room(lambda: TargetFull(expected.size, 0)):
                outcome.save(target / RECEIPT_NAME)
            return ()
        # Somebody wrote to the copy meanwhile. Without a receipt all of it is read again.


def _fill(
    source: Path,
    target: Path,
    expected: Expectations,
    watch: Watch,
    doubted: Collection[str],
    begin: Callable[[int], None],
) -> tuple[Finding, ...] | Receipt:
    """What is bad in the source, or the receipt of a target that is complete."""
    receipt = receipts.load(target / RECEIPT_NAME).without(doubted)
    wrong = {finding.path for finding in unverified(target, expected, receipt)}
    stray = _stray(target, expected)
    known = receipt.without({*wrong, *stray})
    # From here on the directory is in motion, so nobody may start on it.
    (target / RECEIPT_NAME).unlink(missing_ok=True)
    _tidy(target, stray)
    pending = [file for file in expected.files if file.path in wrong]
    _check_room(target, pending)
    begin(sum(file.size for file in pending))
    ahead = cores_are_idle(len(pending))
    results = map_in_threads(lambda file: _bring(source, target, file, watch, ahead), pending)
    shutil.rmtree(target / TEMPORARY)
    if findings := tuple(result for result in results if isinstance(result, Finding)):
        return findings
    brought = [result for result in results if isinstance(result, Brought)]
    if findings := tuple(_written_to(source, [each.read for each in brought if each.read])):
        return findings
    return Receipt([*known.files, *(each.made for each in brought)])


def _stray(target: Path, expected: Expectations) -> list[str]:
    """Files of another version of the model; an engine might load them."""
    return sorted(set(scan(target).files) - {file.path for file in expected.files})


def _tidy(target: Path, stray: Iterable[str]) -> None:
    """Engines that have such a file open keep it until they close it."""
    for path in stray:
        (target / path).unlink()
    shutil.rmtree(target / TEMPORARY, ignore_errors=True)
    (target / TEMPORARY).mkdir(mode=0o700)


def _check_room(target: Path, pending: Iterable[Expected]) -> None:
    space = os.statvfs(target)
    free = space.f_bavail * space.f_frsize
    needed = 0
    for file in pending:
        present = target / file.path
        needed += _whole_pages(file.size) + NOTE_BYTES
        needed -= _whole_pages(present.stat().st_size if present.is_file() else 0)
    if needed > free:
        raise TargetFull(needed, free)
    shortage = memory.shortage(needed, memory.measure())
    if shortage is not None:
        raise NoRoom(shortage)


def _written_to(source: Path, read: Iterable[Seen]) -> Iterator[Finding]:
    """Files that are not any more what was copied: together with others they may be of no version
    that ever was."""
    for seen in read:
        if Seen.of(seen.path, (source / seen.path).stat(), seen.sha256) != seen:
            yield Finding(seen.path, NOT_RESIDENT, "was written to while the model was copied")


def _whole_pages(size: int) -> int:
    """What tmpfs takes for so many bytes."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _bring(
    source: Path, target: Path, file: Expected, watch: Watch, ahead: bool
) -> Brought | Finding:
    """Adopt the file if it is there and right (an attempt before this one wrote it), else copy."""
    final = target / file.path
    if file.sha256 is not None and _has_size(final, file.size):
        # Taken before reading: a file that changes meanwhile does not fit its receipt.
        facts = final.stat()
        sha256 = sha256_of(final, lambda _: watch(0), ahead=ahead)
        if sha256 == file.sha256:
            watch(file.size)
            return Brought(Seen.of(file.path, facts, sha256))
    return _copy(source, target, file, watch, ahead)


def _copy(
    source: Path, target: Path, file: Expected, watch: Watch, ahead: bool
) -> Brought | Finding:
    temporary = target / TEMPORARY / hashlib.sha256(os.fsencode(file.path)).hexdigest()
    # Taken before reading, so that one that changes meanwhile is known by it.
    facts = (source / file.path).stat()
    with room(lambda: TargetFull(file.size, 0)):
        sha256 = _copy_content(source / file.path, temporary, watch, ahead)
    finding = digest_finding(file, sha256)
    if finding is not None:
        return finding
    temporary.chmod(0o444)
    final = target / file.path
    final.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    temporary.rename(final)
    # Taken afterwards: a rename moves the time of change.
    made = Seen.of(file.path, final.stat(), sha256)
    return Brought(made, Seen.of(file.path, facts, sha256) if file.sha256 is None else None)


def _copy_content(source: Path, temporary: Path, watch: Watch, ahead: bool) -> str:
    with source.open("rb", buffering=0) as reader, temporary.open("wb", buffering=0) as writer:

        def write(piece: memoryview, offset: int) -> None:
            _write_all(writer.fileno(), piece)
            # The page cache of the source would count against the same limit as the copy.
            os.posix_fadvise(reader.fileno(), offset, len(piece), os.POSIX_FADV_DONTNEED)

        return sha256_of_open(reader, watch, write, ahead=ahead)


def _write_all(descriptor: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(descriptor, piece) :]


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size == size
