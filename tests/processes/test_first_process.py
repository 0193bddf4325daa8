"""The entries of our containers, told to end while they still import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from warmpod import firstprocess

ROOT = Path(__file__).parents[2]
ENTRIES = ROOT / "images" / "operator"
#: A module of each that takes for ever to import.
SLOW = {
    "bin/warmpod-operator": "aiohttp",
    "bin/warmpod-agent": "aiohttp",
    "bin/warmpod-sidecar": "aiohttp",
    "launch.py": "argparse",
}
NEVER = "import time\nprint('importing', flush=True)\ntime.sleep(600)\n"


@contextmanager
def importing(entry: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The entry, in the middle of its imports."""
    (folder / f"{SLOW[entry]}.py").write_text(NEVER)
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT / 'operator'}"}
    command = [sys.executable, str(ENTRIES / entry)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "importing\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("entry", SLOW)
def test_it_ends_at_once(entry: str, tmp_path: Path) -> None:
    """A status of its own tells that it was no default action, which a first process has not."""
    with importing(entry, tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == firstprocess.ENDED
