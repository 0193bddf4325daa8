"""Which commit of a repository a directory holds: the branch that was asked for may name another
one by now, and on another node."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = ".warmpod-commit"
_COMMIT = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_BYTES = 64


def note(directory: Path, commit: str) -> None:
    """Empty: the source has no commits."""
    if not commit:
        (directory / _NAME).unlink(missing_ok=True)
        return
    temporary = directory / f"{_NAME}.new"
    temporary.unlink(missing_ok=True)  # whatever it is, such as a link
    temporary.write_text(commit)
    temporary.chmod(0o644)
    temporary.rename(directory / _NAME)


def noted(directory: Path) -> str:
    """Empty where nobody has noted one."""
    try:
        with (directory / _NAME).open("rb") as file:
            text = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return ""
    return text.decode() if _COMMIT.fullmatch(text) else ""
