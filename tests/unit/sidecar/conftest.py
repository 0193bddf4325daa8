from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from unit.sidecar.harness import Stage, staged


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as prepared:
        yield prepared
