"""Which commands can be run by a process that has imported vLLM, and by which interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warmpod.launcher.invocation.command import Command
from warmpod.launcher.invocation.vllm_command import NoForkError, Program, changed, program_of


@pytest.fixture
def binaries(tmp_path: Path) -> Path:
    """A directory of programs, all of which are there but for what a test adds."""
    for name in ("python3", "python3.12"):
        (tmp_path / name).symlink_to(sys.executable)
    return tmp_path


def command(binaries: Path, first_line: str, name: str = "vllm") -> Command:
    script = binaries / name
    script.write_text(f"{first_line}\nimport vllm\n")
    script.chmod(0o755)
    return Command([name, "serve", "/models/m"], {"PATH": str(binaries)})


@pytest.mark.parametrize(
    ("first_line", "words"),
    [
        ("#!{bin}/python3", ["{bin}/python3"]),
        ("#! {bin}/python3.12 -sE ", ["{bin}/python3.12", "-sE"]),
        ("#!/usr/bin/env python3", ["{bin}/python3"]),
        ("#!/usr/bin/env -S python3.12 -s -E", ["{bin}/python3.12", "-s", "-E"]),
    ],
)
def test_the_interpreter_is_what_the_script_names(
    binaries: Path, first_line: str, words: list[str]
) -> None:
    found = program_of(command(binaries, first_line.format(bin=binaries)))
    expected = tuple(word.format(bin=binaries) for word in words)
    assert found == Program(str(binaries / "vllm"), expected)


@pytest.mark.parametrize(
    ("first_line", "why"),
    [
        ("#!/bin/sh", "vllm is no script for Python"),
        ("#!/usr/bin/env", "vllm is no script for Python"),
        ("#!/usr/bin/env sh", "vllm is no script for Python"),
        ("#!", "vllm is no script for Python"),
        ("\x7fELF", "vllm is no script for Python"),
        ("#!/no/such/python3", "/no/such/python3, which"),
        ("#!/usr/bin/env python3.9", "python3.9, which"),
    ],
)
def test_others_cannot_be_forked(binaries: Path, first_line: str, why: str) -> None:
    with pytest.raises(NoForkError, match=why):
        program_of(command(binaries, first_line))


def test_only_vllms_own_command_can_be_forked(binaries: Path) -> None:
    with pytest.raises(NoForkError, match="started by serve, not by vLLM's own command"):
        program_of(command(binaries, "#!/usr/bin/env python3", "serve"))
    with pytest.raises(NoForkError, match="vllm is not in the engine image"):
        program_of(Command(["vllm"], {"PATH": str(binaries)}))


@pytest.mark.parametrize(
    ("server", "boot", "name"),
    [
        ({}, {}, ""),
        ({"A": "1", "B": "2"}, {"B": "2", "A": "1"}, ""),
        ({"A": "1"}, {"A": "2"}, "A"),
        ({"A": "1"}, {}, "A"),
        ({}, {"B": ""}, "B"),
    ],
)
def test_the_first_variable_that_differs(
    server: dict[str, str], boot: dict[str, str], name: str
) -> None:
    assert changed(server, boot) == name
