#!/usr/bin/env python3
"""Checks style, types, and whether the generated CRD is what the code says."""

import subprocess
import sys
from pathlib import Path

from devtools import places, steps

CRD = Path("crds", "warmpod.io_warmmodels.yaml")
# Programs without the suffix by which ruff finds Python files.
PROGRAMS = ("hack/cluster/build", "hack/cluster/cluster")

CHECKS = {
    "ruff check": ("-m", "ruff", "check", ".", *PROGRAMS),
    "ruff format": ("-m", "ruff", "format", "--check", ".", *PROGRAMS),
    "mypy": ("-m", "mypy"),
}


def main() -> int:
    return 1 if failed_checks() else 0


def failed_checks() -> list[str]:
    """Tells the result of each check, and the output of those that fail."""
    failed = []
    for name, arguments in CHECKS.items():
        completed = python(*arguments)
        tell(name, completed.returncode == 0, completed.stdout + completed.stderr)
        failed += [name] if completed.returncode else []
    if not crd_is_current():
        failed.append("CRD")
    return failed


def number_of_checks() -> int:
    return len(CHECKS) + 1


def crd_is_current() -> bool:
    completed = python("-m", "warmpod.api.crd")
    current = completed.returncode == 0 and completed.stdout == (places.ROOT / CRD).read_text()
    remedy = f"{completed.stderr}run: python -m warmpod.api.crd > {CRD}\n"
    tell("CRD", current, remedy)
    return current


def python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=places.ROOT, capture_output=True, text=True, check=False
    )


def tell(name: str, passed: bool, output: str) -> None:
    steps.say(f"    {name}: {'passed' if passed else 'FAILED'}")
    if not passed:
        steps.say(output)


if __name__ == "__main__":
    sys.exit(main())
