"""The sidecar asks the launcher to end a boot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from launcher_process import Launcher, fake
from test_launcher_stop import drains, free_port

from support.waiting import wait_for
from warmpod.launcher import requests
from warmpod.launcher.requests import EndRequest, EndRequests, parse

Launch = Callable[..., Launcher]
SOON = {"mainloop.STEP_SECONDS": 0.05}


@pytest.mark.parametrize(
    ("data", "request_"),
    [
        (b'{"boot": "b", "why": "no progress"}', EndRequest("b", "no progress")),
        (b'{"boot": "b"}', EndRequest("b", "")),
        (b'{"boot": "b", "why": "one\\nline"}', EndRequest("b", "one line")),
        (b'{"boot": "b", "why": 3, "more": []}', EndRequest("b", "3")),
        (b'{"boot": 7}', None),
        (b'{"boot": "b", "wh', None),
        (b"[]", None),
        (b"", None),
        (b"\xff\x00", None),
        (b"[" * 100_000, None),
    ],
)
def test_what_a_request_is(data: bytes, request_: EndRequest | None) -> None:
    assert parse(data) == request_


def test_reason_is_short() -> None:
    found = parse(b'{"boot": "b", "why": "' + b"x" * 1000 + b'"}')
    assert found is not None
    assert len(found.why) == 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "end-boot.json"


def test_a_request_is_taken_once(path: Path) -> None:
    path.write_text('{"boot": "b", "why": "w"}')
    taker = EndRequests(path)
    assert taker.take("b") == EndRequest("b", "w")
    assert not path.exists()
    assert taker.take("b") is None


def test_a_request_to_end_another_boot_is_removed(path: Path) -> None:
    path.write_text('{"boot": "over", "why": "w"}')
    assert EndRequests(path).take("b") is None
    assert not path.exists()


def test_a_half_written_request_is_taken_when_it_is_whole(path: Path) -> None:
    path.write_text('{"boot": "b"')
    taker = EndRequests(path)
    assert taker.take("b") is None
    path.write_text('{"boot": "b"}')
    assert taker.take("b") == EndRequest("b", "")


def test_garbage_is_removed_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("garbage")
    taker = EndRequests(path)
    assert taker.take("b") is None
    assert path.exists()
    monkeypatch.setattr(requests, "GRACE_SECONDS", 0)
    assert taker.take("b") is None
    assert not path.exists()


def test_each_garbage_has_its_own_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("garbage")
    taker = EndRequests(path)
    taker.take("b")
    path.unlink()
    taker.take("b")
    monkeypatch.setattr(requests, "GRACE_SECONDS", 0)
    path.write_text('{"boot": "b"}')
    assert taker.take("b") == EndRequest("b", "")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path)])
def test_what_is_no_file_is_removed(
    path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "GRACE_SECONDS", 0)
    make(path)
    assert EndRequests(path).take("b") is None
    assert not path.is_symlink()
    assert not path.exists()


def test_what_cannot_be_removed_does_no_harm(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "GRACE_SECONDS", 0)
    path.mkdir()
    taker = EndRequests(path)
    assert taker.take("b") is None
    assert taker.take("b") is None


def test_the_boot_ends_and_the_next_one_starts_at_once(launch: Launch) -> None:
    launcher = launch(fake("serve"), "--max-failed-boots=1", times=SOON)
    for number in (1, 2, 3):
        launcher.wait_ready(number)
        boot = launcher.events("boot-started")[-1]["boot"]
        path = launcher.ask_to_end(boot)
        ended = launcher.wait_event("boot-ended", number)
        assert (ended["boot"], ended["cause"]) == (boot, "warmup-failed")
        assert not path.exists()
    launcher.wait_ready(4)
    assert launcher.events("gave-up") == []


def test_an_engine_that_does_not_listen_is_killed(launch: Launch) -> None:
    times = SOON | {"shutdown.FIRST_TERM": 0.1, "shutdown.SECOND_TERM": 0.1}
    launcher = launch(fake("load"), times=times)
    launcher.wait_event("stage")
    launcher.ask_to_end(launcher.events("boot-started")[0]["boot"])
    ended = launcher.wait_event("boot-ended")
    assert (ended["cause"], ended["signal"]) == ("warmup-failed", 9)
    launcher.wait_event("boot-started", 2)


def test_no_other_boot_is_ended(launch: Launch) -> None:
    launcher = launch(fake("serve"), times=SOON)
    launcher.wait_ready()
    path = launcher.ask_to_end("0123456789ab")
    wait_for(lambda: not path.exists())
    launcher.process.terminate()
    assert launcher.exit_code() == 0
    assert [event["cause"] for event in launcher.events("boot-ended")] == ["stopping"]


def test_a_request_while_stopping_changes_nothing(launch: Launch, tmp_path: Path) -> None:
    running = tmp_path / "running"
    running.write_text("2.0")
    port = free_port()
    launcher = launch(fake("metrics", port, running), f"--port={port}", times=SOON)
    launcher.wait_ready()
    launcher.process.terminate()
    drains(launcher, tmp_path)
    path = launcher.ask_to_end(launcher.events("boot-started")[0]["boot"])
    asked = (tmp_path / "stdout").read_text().count("GET /metrics")
    wait_for(lambda: (tmp_path / "stdout").read_text().count("GET /metrics") > asked + 2)
    assert launcher.events("boot-ended") == []
    running.write_text("0.0")
    assert launcher.exit_code() == 0
    assert [event["cause"] for event in launcher.events("boot-ended")] == ["stopping"]
    assert path.exists()
    assert len(launcher.events("boot-started")) == 1


def test_the_request_of_an_earlier_launcher_is_void(launch: Launch, run_dir: Path) -> None:
    path = run_dir / "end-boot.json"
    path.write_text('{"boot": "0123456789ab", "why": "old"}')
    launcher = launch(fake("serve"), times=SOON)
    launcher.wait_ready()
    wait_for(lambda: not path.exists())
    assert launcher.events("boot-ended") == []
