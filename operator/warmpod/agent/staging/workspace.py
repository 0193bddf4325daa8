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
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

from warmpod.agent.disk.nolinks import refuse_links
from warmpod.agent.staging.errors import DiskFull, tampered
from warmpod.agent.staging.files import RemoteFile
from warmpod.quantity import human
from warmpod.weights import manifest as manifests
from warmpod.weights.findings import WeightsError
from warmpod.weights.manifest import Entry, Manifest
from warmpod.weights.receipt import Seen

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
        self._published: dict[int, Seen] = {}
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

    def whole(self, identity: str) -> Manifest | None:
        """The manifest, if all of its files are known to be of that one version."""
        try:
            manifest = manifests.read(self.directory)
        except WeightsError:
            return None
        if manifest is None or self._strays({entry.path for entry in manifest.files}):
            return None
        same = all(self._known_as(e.path, identity) == e.sha256 for e in manifest.files)
        return manifest if same else None

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
        facts = temporary.lstat()
        final = self.directory / path
        with self._lock:
            self._append(path, [identity, *_facts(facts), sha256])
            self._make_folders(PurePosixPath(path).parent)
            temporary.rename(final)
            named = final.lstat()
            # By inode: the names of a link in an archive are one file, which each rename changes.
            self._published[named.st_ino] = Seen.of("", named, "")

    def adopt(self, file: RemoteFile, facts: os.stat_result, sha256: str) -> None:
        """Remember a file that was there already and has the right content."""
        (self.directory / file.path).chmod(0o644)
        with self._lock:
            self._append(file.path, [file.identity, *_facts(facts), sha256])

    def finish(self, files: Iterable[tuple[str, str]]) -> Manifest:
        """Write the manifest, last of all, for paths and their SHA-256. Raises SourceError when
        one of them is not any more what was published: the first may be hours old."""
        files = tuple(files)
        for path, _ in files:
            facts = (self.directory / path).lstat()
            if Seen.of("", facts, "") != self._published.get(facts.st_ino, Seen.of("", facts, "")):
                raise tampered(path)
        entries = [
            Entry(path, (self.directory / path).stat().st_size, sha256) for path, sha256 in files
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
        return manifest

    def check_room(self, needed: int) -> None:
        """Raises SourceError when `needed` bytes more would leave less than the reserve."""
        space = os.statvfs(self.directory)
        free = space.f_bavail * space.f_frsize
        reserve = int(space.f_blocks * space.f_frsize * RESERVE_FRACTION)
        if needed and needed + reserve > free:
            wanted = f"{human(needed)} and {human(reserve)} (5 % of the file system) in reserve"
            raise DiskFull("the weights do not fit", wanted, human(free))

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
