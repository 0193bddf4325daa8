"""Compare the files of a directory with what its manifest promises."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from warmpod.reasons import (
    DIGEST_MISMATCH,
    NOT_RESIDENT,
    SIZE_MISMATCH,
    WEIGHTS_MISSING,
    WEIGHTS_NOT_READABLE,
)
from warmpod.weights import manifest as manifests
from warmpod.weights.findings import Finding, WeightsError
from warmpod.weights.hashing import Watch, cores_are_idle, map_in_threads, sha256_of_open
from warmpod.weights.receipt import Receipt, Seen
from warmpod.weights.tree import WEIGHT_SUFFIXES, Tree, scan


@dataclass(frozen=True)
class Expected:
    """A file that must be there; the digest is unknown when the image has no manifest."""

    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class Expectations:
    """What a directory must hold, and what is wrong with it before any content was read."""

    files: tuple[Expected, ...]
    has_manifest: bool
    findings: tuple[Finding, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Verification:
    """The outcome; the receipt covers the files whose content is known, good or bad."""

    findings: tuple[Finding, ...]
    receipt: Receipt


def expectations(directory: Path) -> Expectations:
    """Read the manifest and examine every file, without reading content."""
    try:
        tree = scan(directory)
        manifest = manifests.read(directory)
    except WeightsError as error:
        finding = Finding(manifests.MANIFEST_NAME, WEIGHTS_MISSING, _without_name(error))
        return Expectations((), True, (finding,))
    except OSError as error:
        path = os.path.relpath(error.filename or directory, directory)
        finding = Finding(path, WEIGHTS_NOT_READABLE, f"cannot be listed: {error.strerror}")
        return Expectations((), False, (finding,))
    if manifest is None:
        return _without_manifest(directory, tree)
    files = tuple(Expected(entry.path, entry.size, entry.sha256) for entry in manifest.files)
    findings = [*tree.findings, *_unlisted(tree, files), *_examine(directory, files)]
    return Expectations(files, True, _one_a_file(findings))


def verify(directory: Path, expected: Expectations, receipt: Receipt, watch: Watch) -> Verification:
    """Read every file that the receipt does not vouch for, and say of each how it is when the last
    one was read, which may be hours after it was read itself. `watch` is told of all bytes."""
    if expected.findings:
        # Whoever looks wants the broken file's name now, not after hours of hashing.
        return Verification(expected.findings, receipt)
    unread = sum(1 for _ in unverified(directory, expected, receipt))
    ahead = cores_are_idle(unread)
    results = map_in_threads(
        lambda file: _compare(directory, file, receipt, watch, ahead), expected.files
    )
    read = Receipt(seen for _, seen in results if seen is not None)
    findings = [finding for finding, _ in results if finding is not None]
    return Verification(_one_a_file([*findings, *unverified(directory, expected, read)]), read)


def unverified(directory: Path, expected: Expectations, receipt: Receipt) -> Iterator[Finding]:
    """Expected files that are not known to be right, without reading any content: what is missing,
    changed since it was read, or known to be wrong."""
    for file in expected.files:
        try:
            facts = (directory / file.path).stat()
        except OSError as error:
            yield _unreadable(file.path, error)
            continue
        sha256 = receipt.digest_of(file.path, facts)
        if facts.st_size != file.size:
            yield _size_finding(file, facts)
        elif sha256 is None:
            yield Finding(file.path, NOT_RESIDENT, "changed since it was verified")
        elif (finding := digest_finding(file, sha256)) is not None:
            yield finding


def digest_finding(file: Expected, sha256: str) -> Finding | None:
    if file.sha256 is None or file.sha256 == sha256:
        return None
    detail = f"sha256 is {sha256[:12]}…, the manifest says {file.sha256[:12]}…"
    return Finding(file.path, DIGEST_MISMATCH, detail)


def _compare(
    directory: Path, file: Expected, receipt: Receipt, watch: Watch, ahead: bool
) -> tuple[Finding | None, Seen | None]:
    try:
        with (directory / file.path).open("rb", buffering=0) as opened:
            # Taken before reading: a file that changes meanwhile no longer fits its receipt.
            facts = os.fstat(opened.fileno())
            sha256 = receipt.digest_of(file.path, facts)
            if sha256 is None:
                sha256 = sha256_of_open(opened, watch, ahead=ahead)
            else:
                watch(facts.st_size)
    except OSError as error:
        return _unreadable(file.path, error), None
    return digest_finding(file, sha256), Seen.of(file.path, facts, sha256)


def _unreadable(path: str, error: OSError) -> Finding:
    if isinstance(error, FileNotFoundError):
        return Finding(path, WEIGHTS_MISSING, "missing")
    detail = f"uid {os.geteuid()} cannot read it: {error.strerror}"
    return Finding(path, WEIGHTS_NOT_READABLE, detail)


def _without_manifest(directory: Path, tree: Tree) -> Expectations:
    files = tuple(Expected(path, (directory / path).stat().st_size, None) for path in tree.files)
    findings = [*tree.findings, *_examine(directory, files)]
    if not files and not findings:
        findings.append(Finding(".", WEIGHTS_MISSING, "holds no files"))
    return Expectations(files, False, _one_a_file(findings))


def _unlisted(tree: Tree, files: Iterable[Expected]) -> Iterator[Finding]:
    """An engine may load every weights file that it finds, listed or not."""
    listed = {file.path for file in files}
    for path in tree.files:
        if path.endswith(WEIGHT_SUFFIXES) and path not in listed:
            yield Finding(path, DIGEST_MISMATCH, "a weights file that the manifest does not list")


def _examine(directory: Path, files: Iterable[Expected]) -> Iterator[Finding]:
    root = os.path.realpath(directory)
    closed = _closed_folders(directory, files)
    for file in files:
        finding = _examine_file(directory, root, file) or closed.get(_parent(file.path))
        if finding is not None:
            yield finding


def _examine_file(directory: Path, root: str, file: Expected) -> Finding | None:
    full = directory / file.path
    try:
        facts = full.stat()
    except OSError as error:
        return _unreadable(file.path, error)
    if not stat.S_ISREG(facts.st_mode):
        return Finding(file.path, WEIGHTS_MISSING, "not a regular file")
    if facts.st_size != file.size:
        return _size_finding(file, facts)
    if not facts.st_mode & stat.S_IROTH:
        return Finding(file.path, WEIGHTS_NOT_READABLE, _mode_detail(facts, "0644"))
    if not os.path.realpath(full).startswith(root + os.sep):
        # It may exist here, in the agent's container, but not in the engine's.
        return Finding(file.path, WEIGHTS_MISSING, "link that leads out of the model's directory")
    return None


def _size_finding(file: Expected, facts: os.stat_result) -> Finding:
    detail = f"{facts.st_size} bytes, the manifest says {file.size}"
    return Finding(file.path, SIZE_MISMATCH, detail)


def _closed_folders(directory: Path, files: Iterable[Expected]) -> dict[str, Finding]:
    """Folders on the way to a file that others may not enter, under each folder below them."""
    closed: dict[str, Finding] = {}
    for folder in sorted({_parent(file.path) for file in files}):
        for part in [*reversed(PurePosixPath(folder).parents), PurePosixPath(folder)]:
            try:
                facts = (directory / part).stat()
            except OSError:
                break  # the file's own examination names it
            if not facts.st_mode & stat.S_IXOTH:
                detail = _mode_detail(facts, "0755")
                closed[folder] = Finding(part.as_posix(), WEIGHTS_NOT_READABLE, detail)
                break
    return closed


def _mode_detail(facts: os.stat_result, wanted: str) -> str:
    mode = stat.S_IMODE(facts.st_mode)
    return f"mode {mode:04o}, owner uid {facts.st_uid}: other users cannot read it, needs {wanted}"


def _parent(path: str) -> str:
    return PurePosixPath(path).parent.as_posix()


def _one_a_file(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The tree's word on a file comes first: "link to x, which does not exist" says more than
    "missing"."""
    by_path: dict[str, Finding] = {}
    for finding in findings:
        by_path.setdefault(finding.path, finding)
    return tuple(sorted(by_path.values()))


def _without_name(error: WeightsError) -> str:
    return str(error).removeprefix(f"{manifests.MANIFEST_NAME}: ")
