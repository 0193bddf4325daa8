"""Files that need not be there."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """Empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
