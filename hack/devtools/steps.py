"""Running programs, and telling the user what takes how long."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TICK_S = 15.0  # how often a step that goes on says so


class StepError(Exception):
    """Something the user has to act on; the message says what to do."""


@contextmanager
def step(name: str) -> Iterator[None]:
    """Prints the name, a sign of life while it lasts, and the seconds it took."""
    started = time.monotonic()
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(TICK_S):
            say(f"    {name}: {time.monotonic() - started:.0f} s so far")

    ticker = threading.Thread(target=tick, daemon=True)
    say(f"--> {name}")
    ticker.start()
    try:
        yield
    finally:
        ended.set()
        ticker.join()
    say(f"    {name}: done in {time.monotonic() - started:.1f} s")


def say(line: str) -> None:
    print(line, flush=True)


def run(
    *command: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    standard_input: str | None = None,
) -> str:
    """Runs a program that must not fail and gives its standard output."""
    words = [str(word) for word in command]
    completed = subprocess.run(
        words,
        input=standard_input,
        capture_output=True,
        text=True,
        check=False,
        env=None if env is None else dict(env),
        cwd=cwd,
    )
    if completed.returncode != 0:
        output = (completed.stdout + completed.stderr).strip()
        raise StepError(f"{' '.join(words)}\nfailed with {completed.returncode}:\n{output}")
    return completed.stdout


def exit_with_message(error: StepError) -> None:
    print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
    sys.exit(1)
