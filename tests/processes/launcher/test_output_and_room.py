"""The engine's last lines under load, and a run directory that is full."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launcher_process import Launcher, fake

from warmpod.launcher.events import EventLog
from warmpod.launcher.log.output import Output

Launch = Callable[..., Launcher]


def test_all_that_was_written_is_heard_though_the_pipe_stays_open() -> None:
    heard: list[str] = []

    def hear(line: str) -> None:
        time.sleep(0.002)
        heard.append(line)

    output = Output(hear)
    engine = os.dup(output.ends_for_engine()[0][0])
    output.start()
    lines = [f"line {number}" for number in range(300)]
    os.write(engine, "".join(f"{line}\n" for line in lines).encode())
    output.drain(60)
    assert heard == lines
    os.close(engine)
    output.join(60)


def test_output_that_is_not_heard_in_time_does_not_block() -> None:
    go = threading.Event()
    output = Output(lambda _line: go.wait(60))
    engine = os.dup(output.ends_for_engine()[0][0])
    output.start()
    os.write(engine, b"line\n")
    output.drain(0.05)
    assert not go.is_set()
    go.set()
    os.close(engine)
    output.join(60)


def test_the_last_lines_of_a_talkative_engine_are_kept(launch: Launch) -> None:
    lines = [f"word {number}" for number in range(500)]
    launcher = launch(fake("exit_with", 1, *lines, "RuntimeError: last"), "--max-failed-boots=1")
    assert launcher.exit_code() == 1
    assert launcher.events("boot-ended")[0]["last_lines"][-1] == "RuntimeError: last"


@pytest.fixture
def small_dir(run_dir: Path) -> Iterator[Path]:
    """The run directory as a memory file system of 1 MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "none", str(run_dir)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield run_dir
    subprocess.run(["umount", "--lazy", str(run_dir)], check=True)


def fill(directory: Path) -> None:
    with (directory / "mine").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def test_events_have_room_of_their_own(small_dir: Path) -> None:
    log = EventLog(small_dir / "events.jsonl")
    log.make_room()
    assert (small_dir / "events.jsonl").stat().st_size == 0
    assert not log.is_full()
    fill(small_dir)
    assert log.is_full()
    for number in range(500):
        log.write("stage", "b", number=number)
    lines = (small_dir / "events.jsonl").read_text().splitlines()
    assert len(lines) == 500


def test_an_engine_that_fills_the_directory_is_found_out_and_started_again(
    launch: Launch, small_dir: Path, tmp_path: Path
) -> None:
    launcher = launch(fake("fill", small_dir, tmp_path / "mark"))
    launcher.wait_ready()
    second = launcher.events("boot-started")[1]["boot"]
    failures = launcher.events("failure")
    assert [(event["boot"], event["reason"]) for event in failures] == [
        (second, "RunDirectoryFull")
    ]
    assert failures[0]["line"] == f"{small_dir} is full"
    assert "RunDirectoryFull" in (tmp_path / "stderr").read_text()


def test_a_directory_that_is_full_from_the_beginning_does_not_stop_the_engine(
    launch: Launch, small_dir: Path, tmp_path: Path
) -> None:
    fill(small_dir)
    launcher = launch(fake("exit_with", 0, "served"), "--max-failed-boots=1")
    assert launcher.exit_code() == 1
    assert (tmp_path / "stdout").read_text() == "served\n"
    assert "RunDirectoryFull" in (tmp_path / "stderr").read_text()
