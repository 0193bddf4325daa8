"""The launcher's own lines in the container's log."""

from __future__ import annotations

import os

STDERR = 2


def say(message: str) -> None:
    """Print one line; a closed or full stderr must not end the launcher."""
    try:
        os.write(STDERR, f"[warmpod launcher] {message}\n".encode(errors="backslashreplace"))
    except OSError:
        # There is no other place to tell it.
        return
