"""What runs the image's `vllm`: only a script for Python can be run by a process that is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warmpod.launcher.invocation.command import Command

NAME = "vllm"
# The kernel reads as much of a script's first line (execve(2)).
_FIRST_LINE_BYTES = 256


class NoForkError(Exception):
    """An engine cannot be forked; says why."""


@dataclass(frozen=True)
class Program:
    """A script and what its first line names: an interpreter with its options."""

    script: str
    interpreter: tuple[str, ...]


def program_of(command: Command) -> Program:
    """Look into the image; raises NoForkError for what is not vLLM's own command."""
    name = command.argv[0]
    if Path(name).name != NAME:
        raise NoForkError(f"the engine is started by {name}, not by vLLM's own command")
    path = command.environment.get("PATH", os.defpath)
    script = shutil.which(name, path=path)
    if script is None:
        raise NoForkError(f"{name} is not in the engine image")
    try:
        line = first_line(Path(script))
    except OSError as failed:
        raise NoForkError(f"{script} cannot be read: {failed.strerror}") from failed
    return Program(os.path.abspath(script), interpreter_of(line, path, script))


def first_line(script: Path) -> str:
    """As much of it as the kernel reads; raises OSError."""
    with script.open("rb") as file:
        return file.readline(_FIRST_LINE_BYTES).decode(errors="replace")


def interpreter_of(line: str, path: str, script: str) -> tuple[str, ...]:
    """The Python that the first line of a script names; raises NoForkError for any other."""
    words = line.removeprefix("#!").split(None, 1) if line.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = words[1].removeprefix("-S").split() if len(words) > 1 else []
    # Without `env -S` the kernel gives all that follows as one argument.
    words = [word.strip() for word in words]
    if not words or not Path(words[0]).name.startswith("python"):
        raise NoForkError(f"{script} is no script for Python")
    interpreter = shutil.which(words[0], path=path)
    if interpreter is None:
        raise NoForkError(f"{words[0]}, which {script} names, is not in the engine image")
    return (interpreter, *words[1:])


def changed(server: Mapping[str, str], boot: Mapping[str, str]) -> str:
    """The name of a variable that is not the same in both; empty if there is none."""
    names = sorted(server.keys() | boot.keys())
    return next((name for name in names if server.get(name) != boot.get(name)), "")
