import asyncio
from pathlib import Path

import pytest

from processes.sidecar.harness import FakeLauncher
from warmpod.sidecar.boots import Boot, EventFollower, boot_ended, lock_held


@pytest.fixture
def launcher(tmp_path: Path) -> FakeLauncher:
    return FakeLauncher(tmp_path)


def follower(launcher: FakeLauncher) -> EventFollower:
    return EventFollower(launcher.run_dir / "events.jsonl")


def names(reader: EventFollower) -> list[str]:
    return [event.name for event in reader.read_new()]


def test_follows_a_file_that_does_not_exist_yet(launcher: FakeLauncher) -> None:
    reader = follower(launcher)
    assert names(reader) == []
    launcher.write("launcher-started")
    launcher.write("weights-ready")
    assert names(reader) == ["launcher-started", "weights-ready"]
    assert names(reader) == []


def test_half_written_line_is_read_when_it_is_whole(launcher: FakeLauncher) -> None:
    reader = follower(launcher)
    path = launcher.run_dir / "events.jsonl"
    path.write_text('{"ts": 1, "boot": "", "ev')
    assert names(reader) == []
    with path.open("a") as file:
        file.write('ent": "gave-up"}\n')
    assert names(reader) == ["gave-up"]


def test_broken_line_does_not_hide_the_next_one(launcher: FakeLauncher) -> None:
    reader = follower(launcher)
    (launcher.run_dir / "events.jsonl").write_text('{"ts"\n[]\n{"boot": ""}\n')
    launcher.write("gave-up")
    assert names(reader) == ["gave-up"]


def test_replaced_file_does_not_repeat_events(launcher: FakeLauncher) -> None:
    reader = follower(launcher)
    path = launcher.run_dir / "events.jsonl"
    launcher.write("launcher-started")
    launcher.write("draining")
    assert len(names(reader)) == 2
    replacement = path.with_suffix(".new")
    replacement.write_text(path.read_text().splitlines(keepends=True)[1])
    replacement.replace(path)
    launcher.write("gave-up")
    assert names(reader) == ["gave-up"]


def test_replaced_file_is_read_on_where_it_was_left_also_if_the_clock_was_set_back(
    launcher: FakeLauncher,
) -> None:
    reader = follower(launcher)
    path = launcher.run_dir / "events.jsonl"
    path.write_text('{"ts": 900, "boot": "", "event": "draining"}\n')
    assert names(reader) == ["draining"]
    replacement = path.with_suffix(".new")
    replacement.write_text(path.read_text() + '{"ts": 5, "boot": "b", "event": "boot-started"}\n')
    replacement.replace(path)
    assert names(reader) == ["boot-started"]


async def test_lock_tells_the_end_of_a_boot_at_once(launcher: FakeLauncher) -> None:
    launcher.start_boot("a")
    boot = Boot.of(follower(launcher).read_new()[0], launcher.run_dir)
    assert lock_held(boot)
    waiting = asyncio.create_task(boot_ended(boot))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    launcher.release("a")
    await waiting
    assert not lock_held(boot)


async def test_missing_lock_is_a_boot_that_has_ended(tmp_path: Path) -> None:
    boot = Boot("a", 1, tmp_path / "boot-a.lock", 0.0)
    assert not lock_held(boot)
    await boot_ended(boot)


async def test_lock_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    boot = Boot("a", 1, tmp_path, 0.0)
    with pytest.raises(IsADirectoryError):
        await boot_ended(boot)
