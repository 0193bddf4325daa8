"""Who calls `stage` in these tests, and what they look at afterwards."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmpod.agent.staging import stage
from warmpod.weights import manifest as manifests
from warmpod.weights.manifest import MANIFEST_NAME, Manifest
from warmpod.weights.verify import expectations


class Cancelled(Exception):
    """What a caller's watch raises."""


@dataclass
class Caller:
    """Who calls `stage`, as the agent does it."""

    target: Path
    credentials: Path
    total: int = 0
    done: int = 0
    stop_at: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stage(self, **remote: Mapping[str, Any]) -> Manifest:
        self.total = self.done = 0
        stage(remote, self.credentials, self.target, self.watch, self.begin)
        manifest = manifests.read(self.target)
        assert manifest is not None
        return manifest

    def begin(self, total: int) -> None:
        assert self.total == 0
        self.total = total

    def watch(self, count: int) -> None:
        assert count >= 0
        with self._lock:
            self.done += count
        if self.stop_at is not None and self.done >= self.stop_at:
            raise Cancelled

    def secret(self, **values: str) -> None:
        self.credentials.mkdir(exist_ok=True)
        for name, value in values.items():
            # As `kubectl create secret --from-file` makes it of a file that `echo` wrote.
            (self.credentials / name).write_text(value + "\n")

    def assert_holds(
        self, source: Path, manifest: Manifest, left_out: tuple[str, ...] = ()
    ) -> None:
        """Exactly the files of `source`, verified, and nothing else but the hidden state."""
        wanted = contents(source)
        for name in left_out:
            del wanted[name]
        wanted.pop(MANIFEST_NAME, None)
        found = contents(self.target)
        assert found.pop(MANIFEST_NAME) == manifest.to_json()
        assert found == wanted
        assert {entry.path for entry in manifest.files} == set(wanted)
        assert expectations(self.target).findings == ()
        assert self.done == self.total
        for path in self.target.rglob("*"):
            if ".staging" not in path.parts:
                assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)
        assert [path.name for path in (self.target / ".staging").iterdir()] == ["known.jsonl"]


def contents(directory: Path) -> dict[str, bytes]:
    found = {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }
    return {name: content for name, content in found.items() if not name.startswith(".")}
