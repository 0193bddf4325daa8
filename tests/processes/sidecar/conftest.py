from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from processes.sidecar.harness import Stage, staged
from warmpod.sidecar import settling, supervisor, warming


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(warming, "FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(warming, "HTTP_POLL_SECONDS", 0.02)
    monkeypatch.setattr(settling, "LATE_NEWS_SECONDS", 0.1)
    monkeypatch.setattr(supervisor, "POLL_SECONDS", 0.02)
    async with staged(tmp_path) as prepared:
        yield prepared
