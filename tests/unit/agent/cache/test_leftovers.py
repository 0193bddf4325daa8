"""Stores that nobody came back for."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from warmpod.agent.cache import leftovers as leftovers_module
from warmpod.agent.cache.leftovers import STALE_SECONDS, Leftovers


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    for uid in ("own", "old", "new"):
        (tmp_path / uid / "published" / "k").mkdir(parents=True)
    return tmp_path


@pytest.fixture(autouse=True)
def a_node_that_runs_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    uptime = time.clock_gettime(time.CLOCK_MONOTONIC) + 10 * STALE_SECONDS
    monkeypatch.setattr(leftovers_module.time, "clock_gettime", lambda _: uptime)


def untouched_for(store: Path, seconds: float) -> None:
    when = time.time() - seconds
    os.utime(store, (when, when))


def names(stores: Path) -> set[str]:
    return {path.name for path in stores.iterdir()}


def test_what_no_agent_has_touched_for_a_day_goes(stores: Path) -> None:
    untouched_for(stores / "old", STALE_SECONDS + 60)
    untouched_for(stores / "new", STALE_SECONDS - 60)
    untouched_for(stores / "own", 2 * STALE_SECONDS)
    Leftovers(stores, "own").look()
    assert names(stores) == {"own", "new"}
    # Others see that this one lives.
    Leftovers(stores, "new").look()
    assert names(stores) == {"own", "new"}


def test_time_in_which_the_node_was_off_does_not_count(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers_module.time, "clock_gettime", lambda _: 3600.0)
    untouched_for(stores / "old", 3 * STALE_SECONDS)
    Leftovers(stores, "own").look()
    assert names(stores) == {"own", "old", "new"}


def test_what_an_agent_holds_stays(stores: Path) -> None:
    untouched_for(stores / "old", 2 * STALE_SECONDS)
    descriptor = os.open(stores / "old", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    Leftovers(stores, "own").look()
    assert (stores / "old").exists()
    os.close(descriptor)
    Leftovers(stores, "own").look()
    assert not (stores / "old").exists()


def test_what_an_agent_was_killed_in_is_left_over_too(stores: Path) -> None:
    removing = stores / ".removing-old"
    removing.mkdir()
    untouched_for(removing, 2 * STALE_SECONDS)
    (stores / "file").write_text("x")
    Leftovers(stores, "own").look()
    assert names(stores) == {"own", "old", "new", "file"}


def test_its_own_goes_when_it_is_empty(stores: Path) -> None:
    leftovers = Leftovers(stores, "own")
    leftovers.remove_own()
    assert (stores / "own").exists()
    (stores / "own" / "published" / "k").rmdir()
    (stores / "own" / "published").rmdir()
    leftovers.remove_own()
    assert not (stores / "own").exists()
