"""What the tests of all sources share. Real servers on loopback, and the real clients."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.file_server import FileServer, running
from unit.weights.models import make_model
from warmpod.agent.staging import assembly, stage, transport
from warmpod.weights.manifest import MANIFEST_NAME, Manifest
from warmpod.weights.verify import expectations

SHARD_BYTES = 1_500_000


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
        return stage(remote, self.credentials, self.target, self.watch, self.begin)

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


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several segments a shard, several lines of the journal a segment, and no long pauses."""
    monkeypatch.setattr(assembly, "SEGMENT_BYTES", 400_000)
    monkeypatch.setattr(assembly, "JOURNAL_BYTES", 50_000)
    monkeypatch.setattr(transport, "PIECE_BYTES", 64 * 1024)
    monkeypatch.setattr(transport, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    return Caller(tmp_path / "target", tmp_path / "credentials")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "served" / "org" / "model", SHARD_BYTES)


@pytest.fixture
def web(model: Path) -> Iterator[FileServer]:
    with running(FileServer(model.parent.parent)) as server:
        yield server
