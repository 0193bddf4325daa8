"""Who uses a copy of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from warmpod.inuse import Use
from warmpod.protocol import RECEIPT_NAME


@contextmanager
def used(directory: Path) -> Iterator[None]:
    """As an engine's launcher on this node uses it."""
    with closing(Use(directory / RECEIPT_NAME, pytest.fail)) as use:
        assert use.complete()
        yield
