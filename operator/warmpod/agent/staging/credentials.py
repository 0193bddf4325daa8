"""The Secret as the kubelet mounts it: a folder with a file a key."""

from __future__ import annotations

from pathlib import Path


class Credentials:
    """Read anew for each attempt, because the Secret may appear or change later."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, key: str) -> str | None:
        """The value without the newline that `echo` puts at the end; None when absent or empty."""
        if self._folder is None:
            return None
        try:
            return (self._folder / key).read_text().strip() or None
        except FileNotFoundError:
            return None
