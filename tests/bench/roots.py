"""Root file systems of images, as an engine's container has them, without a cluster.

Each start gets a writable layer of its own, as each pod does. Needs root.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.usage import TICKS_PER_SECOND
from devtools import buildah
from support.node import descendants

# What a container runtime mounts; gone with the mount namespace.
_MOUNTS = """set -eu
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
mount -t tmpfs -o size=2g shm "$1/dev/shm"
mkdir -p "$1/models/bench"
mount --bind "$2" "$1/models/bench"
root=$1
shift 2
exec chroot "$root" "$@"
"""
POLL_S = 0.02
LIMIT_S = 600


@contextmanager
def root_of(image: str) -> Iterator[Path]:
    """A new container of an image that buildah has."""
    name = f"bench-{secrets.token_hex(4)}"
    buildah.output("from", f"--name={name}", image)
    try:
        yield Path(buildah.output("mount", name).strip())
    finally:
        buildah.output("umount", name)
        buildah.output("rm", name)


def commit(image: str, command: Sequence[str], layout: Path) -> None:
    """Writes what an image is after a command as an OCI layout."""
    name = f"bench-{secrets.token_hex(4)}"
    buildah.output("from", f"--name={name}", image)
    try:
        buildah.output("run", "--user=0:0", name, "--", *command)
        buildah.output(
            "commit", "--disable-compression=false", "--timestamp=0", name, f"oci:{layout}"
        )
    finally:
        buildah.output("rm", name)


@dataclass(frozen=True)
class Cost:
    """Of a program and those that it waited for."""

    seconds: float
    processor_seconds: float  # the same on a machine that does something else as well


class Started:
    """A program in a root file system, and when it wrote what."""

    def __init__(
        self, root: Path, model: Path, environment: Sequence[str], command: Sequence[str]
    ) -> None:
        inside = ["env", "-i", *environment, *command]
        self._begun = time.monotonic()
        self._process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _MOUNTS, "sh", str(root), str(model), *inside],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._begun

    def end_by_itself(self) -> Cost:
        """Wait until it ends; it must not fail."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._reader.join()
        if self._process.returncode != 0:
            raise AssertionError(self._last_lines())
        return Cost(round(self.seconds(), 2), round(usage.ru_utime + usage.ru_stime, 2))

    def seconds_to(self, text: str) -> float:
        """Until it wrote a line with the text."""
        while self.seconds() < LIMIT_S:
            ended = self._process.poll() is not None
            for when, line in self._lines.copy():
                if text in line:
                    return when
            if ended:
                break
            time.sleep(POLL_S)
        raise AssertionError(f"no line has {text!r}:\n{self._last_lines()}")

    def seconds_until_healthy(self, port: int) -> float:
        """Until the engine answers."""
        while self.seconds() < LIMIT_S and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    return self.seconds()
            except OSError:
                time.sleep(POLL_S)
        raise AssertionError(f"the engine does not answer:\n{self._last_lines()}")

    def processor_seconds(self) -> float:
        """What it has spent so far, with those that it started and waited for."""
        ticks = 0
        for pid in [self._process.pid, *descendants(self._process.pid)]:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
        return ticks / TICKS_PER_SECOND

    def end(self) -> None:
        """Kill it with all that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append((self.seconds(), line.rstrip()))

    def _last_lines(self) -> str:
        return "\n".join(line for _, line in self._lines[-200:])


def files_of(root: Path) -> Iterator[Path]:
    """All regular files of an image, without what is mounted into its container."""
    for directory, _, names in os.walk(root):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink() and path.is_file():
                yield path


def forget(root: Path) -> None:
    """Drop the image's files from the page cache, as on a node that has just unpacked them."""
    os.sync()
    for path in files_of(root):
        with path.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
