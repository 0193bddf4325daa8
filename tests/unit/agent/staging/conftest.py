"""What the tests of all sources share. Real servers on loopback, and the real clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.file_server import FileServer, running
from unit.agent.staging.callers import Caller
from unit.weights.models import make_model
from warmpod.agent.staging import assembly, transport

SHARD_BYTES = 1_500_000


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
