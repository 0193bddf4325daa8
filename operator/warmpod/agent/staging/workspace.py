"""The directory that is being filled, and what is known of its files from earlier calls.

Everything of the stager's own lies in one hidden folder. A file's line is in the list of known
files before the file gets its name, so a file that has its name is either known or foreign.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from warmpod.agent.disk.nolinks import refuse_links
from warmpod.agent.staging.errors import DiskFull, tampered
from warmpod.agent.staging.files import RemoteFile
from warmpod.quantity import human
from warmpod.weights import manifest as manifests
from warmpod.weights.findings import WeightsError
from warmpod.weights.manifest import Entry, Manifest
from warmpod.weights.receipt import Receipt, Seen

STAGING = ".staging"
# The kubelet evicts pods from a full disk, so some of it stays free.
RESERVE_FRACTION = 0.05


class Workspace:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.staging = directory / STAGING
        self._list = self.staging / "known.jsonl"
        self._lock = threading.Lock()
        self._known: dict[str, list[object]] = {}
        # By inode: the names of a link in an archive are one file, which each rename changes. None:
        # somebody else has written to it.
        self._published: dict[int, Seen | None] = {}
        if not directory.exists():
            directory.mkdir(parents=True)
            directory.chmod(0o755)  # whatever the umask is
        refuse_links([self.staging])
        self.staging.mkdir(mode=0o700, exist_ok=True)
        refuse_links([self._list])
        self._load()

    def known(self, file: RemoteFile) -> str | None:
        """SHA-256 of the file if it is there, in that version and untouched. Where nothing tells
        versions apart it may be another one than the rest will be."""
        return self._known_as(file.path, file.identity) if file.identity else None

    def is_whole(self, identity: str) -> bool:
        """Whether all files of the manifest, and no others, are known to be of that version."""
        try:
            manifest = manifests.read(self.directory)
        except WeightsError:
            return False
        if manifest is None or self._strays({entry.path for entry in manifest.files}):
            return False
        return all(self._known_as(e.path, identity) == e.sha256 for e in manifest.files)

    def tidy(self, keep: Collection[str]) -> None:
        """Take away the manifest, and what belongs to another version of the model."""
        (self.directory / manifests.MANIFEST_NAME).unlink(missing_ok=True)
        for stray in self._strays(keep):
            stray.rmdir() if _is_folder(stray) else stray.unlink()

    def keep_only(self, own: Collection[Path]) -> None:
        """Take away partial files of versions that are not wanted any more."""
        wanted = {path.name for path in own} | {self._list.name}
        for entry in list(self.staging.iterdir()):
            if entry.name not in wanted:
                shutil.rmtree(entry) if _is_folder(entry) else entry.unlink()

    def empty_folder(self, name: str) -> Path:
        folder = self.staging / name
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        return folder

    def publish(self, temporary: Path, path: str, identity: str, sha256: str) -> None:
        """Give a whole and verified file its name."""
        temporary.chmod(0o644)
        final = self.directory / path
        with self._lock:
            facts = temporary.lstat()
            before = self._published.get(facts.st_ino, Seen.of("", facts, ""))
            self._append(path, [identity, *_facts(facts), sha256])
            self._make_folders(PurePosixPath(path).parent)
            temporary.rename(final)
            named = Seen.of("", final.lstat(), "")
            self._published[named.inode] = named if _only_renamed(named, before) else None

    def adopt(self, file: RemoteFile, facts: os.stat_result, sha256: str) -> None:
        """Remember a file that was there already and has the right content."""
        (self.directory / file.path).chmod(0o644)
        with self._lock:
            self._append(file.path, [file.identity, *_facts(facts), sha256])

    def finish(self, files: Iterable[tuple[str, str]]) -> Receipt:
        """Write the manifest, last of all, for paths and their SHA-256; the receipt is of those
        that still are as they were published. Raises SourceError when one of them was written to
        since: the first may be hours old."""
        digests = dict(files)
        brought = Receipt(self._untouched(digests))
        entries = [
            Entry(path, (self.directory / path).stat().st_size, sha256)
            for path, sha256 in digests.items()
        ]
        manifest = Manifest.of(entries)
        temporary = self.staging / "manifest"
        with temporary.open("wb") as file:
            file.write(manifest.to_json())
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.rename(self.directory / manifests.MANIFEST_NAME)
        for folder in {self.directory, *((self.directory / e.path).parent for e in entries)}:
            _sync(folder)
        return brought

    def check_room(self, needed: int) -> None:
        """Raises SourceError when `needed` bytes more would leave less than the reserve."""
        space = os.statvfs(self.directory)
        free = space.f_bavail * space.f_frsize
        reserve = int(space.f_blocks * space.f_frsize * RESERVE_FRACTION)
        if needed and needed + reserve > free:
            wanted = f"{human(needed)} and {human(reserve)} (5 % of the file system) in reserve"
            raise DiskFull("the weights do not fit", wanted, human(free))

    def _untouched(self, digests: Mapping[str, str]) -> Iterator[Seen]:
        for path, sha256 in digests.items():
            facts = (self.directory / path).lstat()
            # None also of what was there before, or was put in its place.
            published = self._published.get(facts.st_ino)
            if published is not None:
                if Seen.of("", facts, "") != published:
                    raise tampered(path)
                yield Seen.of(path, facts, sha256)

    def _known_as(self, path: str, identity: str) -> str | None:
        *remembered, sha256 = self._known.get(path, [None])
        try:
            facts = (self.directory / path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(facts.st_mode) or remembered != [identity, *_facts(facts)]:
            return None
        return str(sha256)

    def _strays(self, keep: Collection[str]) -> list[Path]:
        """What is not to be kept, contents before folders; links are never followed."""
        strays: list[Path] = []
        folders = {parent.as_posix() for path in keep for parent in PurePosixPath(path).parents}
        for parent, names, files in os.walk(self.directory, topdown=False):
            for name in (*files, *names):
                full = Path(parent, name)
                path = full.relative_to(self.directory).as_posix()
                wanted = folders if _is_folder(full) else keep
                own = path.startswith(".") or path == manifests.MANIFEST_NAME
                if not own and (path not in wanted or full.is_symlink()):
                    strays.append(full)
        return strays

    def _make_folders(self, folder: PurePosixPath) -> None:
        for part in [*reversed(folder.parents), folder]:
            full = self.directory / part
            if not full.is_dir():
                full.mkdir()
                full.chmod(0o755)

    def _load(self) -> None:
        """A line that a kill cut short is the last one, and stands for a file without its name."""
        try:
            lines = self._list.read_text().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                path, *facts = json.loads(line)
            except (ValueError, TypeError):
                continue
            self._known[path] = facts

    def _append(self, path: str, facts: list[object]) -> None:
        self._known[path] = facts
        with self._list.open("ab", buffering=0) as file:
            # On a line of its own, whatever the one before it came to.
            file.write(f"\n{json.dumps([path, *facts])}\n".encode())


def _only_renamed(now: Seen, before: Seen | None) -> bool:
    """A rename moves the time of change, and nothing else."""
    return before is not None and replace(now, ctime_ns=before.ctime_ns) == before


def _facts(facts: os.stat_result) -> list[int]:
    return [facts.st_size, facts.st_mtime_ns, facts.st_ino]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
