from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from unit.sidecar.harness import Stage, staged
from warmpod.sidecar import exercise


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(exercise, "FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(exercise, "HTTP_POLL_SECONDS", 0.05)
    async with staged(tmp_path) as prepared:
        yield prepared
