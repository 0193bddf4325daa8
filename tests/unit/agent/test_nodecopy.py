import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from warmpod.agent import nodecopy
from warmpod.agent.nodecopy import NodeCopies, used
from warmpod.protocol import RECEIPT_NAME

LONG_AGO = 3 * nodecopy.STALE_SECONDS


class Copies(NodeCopies):
    """Of one key, the way most of these tests need them."""

    def __init__(self, root: Path, key: str, uid: str) -> None:
        super().__init__(root, uid, [key])
        self.join()
        self.path = self.directory(key)

    def put(self) -> None:
        (self.path / "config.json").write_text("{}")
        (self.path / RECEIPT_NAME).write_text("{}")


def join(root: Path, key: str, uid: str) -> Copies:
    copies = Copies(root, key, uid)
    copies.put()
    return copies


def copies(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


@pytest.fixture(autouse=True)
def long_running_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a ref can be older than an hour of the node's life."""
    monkeypatch.setattr(time, "clock_gettime", lambda _: 10 * LONG_AGO)


def age(root: Path, key: str, uid: str) -> None:
    ref = root / ".refs" / key / uid
    os.utime(ref, (time.time() - LONG_AGO, time.time() - LONG_AGO))


def test_the_last_to_leave_frees_the_memory(tmp_path: Path) -> None:
    first, second = join(tmp_path, "k", "a"), join(tmp_path, "k", "b")
    assert first.leave(forced=False)
    assert (tmp_path / "k" / "config.json").exists()
    assert second.leave(forced=False)
    assert copies(tmp_path) == []
    assert list((tmp_path / ".refs").iterdir()) == []
    assert list((tmp_path / ".fill").iterdir()) == []


def test_joining_and_leaving_twice_is_the_same_as_once(tmp_path: Path) -> None:
    copy = join(tmp_path, "k", "a")
    copy.join()
    copy.leave(forced=False)
    assert copy.leave(forced=False)
    assert copies(tmp_path) == []


def test_several_sets_of_one_model_keep_each_others_copies(tmp_path: Path) -> None:
    model = NodeCopies(tmp_path, "a", ["k1", "k2"])
    model.join()
    for key in ("k1", "k2"):
        (model.directory(key) / "config.json").write_text("{}")
    model.drop_superseded()
    assert copies(tmp_path) == ["k1", "k2"]


def test_a_copy_that_nobody_needs_goes_at_the_next_look(tmp_path: Path) -> None:
    stale = tmp_path / "stale"
    stale.mkdir()
    (stale / "model.safetensors").write_text("x")
    join(tmp_path, "k", "a")
    assert copies(tmp_path) == ["k"]


def test_an_empty_directory_stays_for_the_engine_that_mounted_it(tmp_path: Path) -> None:
    (tmp_path / "early").mkdir()
    before = (tmp_path / "early").stat().st_ino
    join(tmp_path, "k", "a")
    join(tmp_path, "early", "b")
    assert (tmp_path / "early").stat().st_ino == before


# --- Earlier revisions ----------------------------------------------------------------------------


def test_an_earlier_revision_goes_when_its_agent_is_gone(tmp_path: Path) -> None:
    old, new = join(tmp_path, "old", "a"), join(tmp_path, "new", "a")
    new.drop_superseded()
    assert copies(tmp_path) == ["new", "old"]
    old.close()
    new.drop_superseded()
    assert copies(tmp_path) == ["new"]


def test_a_later_revision_stays_while_its_agent_restarts(tmp_path: Path) -> None:
    old, new = join(tmp_path, "old", "a"), join(tmp_path, "new", "a")
    new.close()
    old.drop_superseded()
    assert copies(tmp_path) == ["new", "old"]


def test_a_set_that_a_revision_dropped_goes_and_the_one_it_kept_stays(tmp_path: Path) -> None:
    before = NodeCopies(tmp_path, "a", ["kept", "dropped"])
    before.join()
    (before.directory("dropped") / "config.json").write_text("{}")
    os.close(before._refs.pop("dropped"))
    after = NodeCopies(tmp_path, "a", ["kept", "added"])
    after.join()
    after.drop_superseded()
    assert copies(tmp_path) == ["added", "kept"]


def test_an_earlier_revision_stays_while_an_engine_uses_it(tmp_path: Path) -> None:
    old, new = join(tmp_path, "old", "a"), join(tmp_path, "new", "a")
    old.close()
    with used(old.path):
        new.drop_superseded()
        new.join()
        assert copies(tmp_path) == ["new", "old"]
        assert (old.path / RECEIPT_NAME).exists()
    new.drop_superseded()
    assert copies(tmp_path) == ["new"]


def test_leaving_gives_up_earlier_revisions_too(tmp_path: Path) -> None:
    join(tmp_path, "old", "a").close()
    new = join(tmp_path, "new", "a")
    join(tmp_path, "other", "b")
    new.leave(forced=False)
    assert copies(tmp_path) == ["other"]


def test_an_earlier_revision_that_another_model_needs_stays(tmp_path: Path) -> None:
    join(tmp_path, "shared", "a").close()
    other = join(tmp_path, "shared", "b")
    new = join(tmp_path, "new", "a")
    new.drop_superseded()
    assert copies(tmp_path) == ["new", "shared"]
    other.leave(forced=False)
    assert copies(tmp_path) == ["new"]


# --- Leaving while engines still run --------------------------------------------------------------


def test_a_copy_in_use_is_left_when_its_engine_ends(tmp_path: Path) -> None:
    copy = join(tmp_path, "k", "a")
    with used(copy.path):
        assert not copy.leave(forced=False)
        assert (copy.path / RECEIPT_NAME).exists()
    assert copy.leave(forced=False)
    assert copies(tmp_path) == []


def test_by_force_the_files_go_and_the_directory_stays(tmp_path: Path) -> None:
    copy = join(tmp_path, "k", "a")
    with used(copy.path), (copy.path / "config.json").open() as opened:
        assert copy.leave(forced=True)
        assert list(copy.path.iterdir()) == []
        assert opened.read() == "{}"


# --- Agents that were killed ----------------------------------------------------------------------


def test_the_ref_of_a_killed_agent_goes_after_an_hour(tmp_path: Path) -> None:
    join(tmp_path, "gone", "a").close()
    other = join(tmp_path, "k", "b")
    assert copies(tmp_path) == ["gone", "k"]
    age(tmp_path, "gone", "a")
    other.join()
    assert copies(tmp_path) == ["k"]


def test_an_old_ref_stays_while_its_agent_or_an_engine_lives(tmp_path: Path) -> None:
    alive = join(tmp_path, "alive", "a")
    dead = join(tmp_path, "used", "c")
    dead.close()
    other = join(tmp_path, "k", "b")
    age(tmp_path, "alive", "a")
    age(tmp_path, "used", "c")
    with used(dead.path):
        other.join()
        assert copies(tmp_path) == ["alive", "k", "used"]
    other.join()
    assert copies(tmp_path) == ["alive", "k"]
    alive.join()
    assert time.time() - (tmp_path / ".refs" / "alive" / "a").stat().st_mtime < 60


def test_the_time_in_which_the_node_was_off_does_not_count(tmp_path: Path, monkeypatch) -> None:
    join(tmp_path, "early", "a").close()
    age(tmp_path, "early", "a")
    monkeypatch.setattr(time, "clock_gettime", lambda _: 60.0)
    join(tmp_path, "k", "b")
    assert copies(tmp_path) == ["early", "k"]


def test_a_ref_that_another_node_removed_is_made_again(tmp_path: Path) -> None:
    copy = join(tmp_path, "k", "a")
    (tmp_path / ".refs" / "k" / "a").unlink()
    copy.join()
    assert (tmp_path / ".refs" / "k" / "a").exists()
    assert copies(tmp_path) == ["k"]


# --- Writers --------------------------------------------------------------------------------------


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    first, second = join(tmp_path, "k", "a"), join(tmp_path, "k", "b")
    waiting, order = threading.Event(), []

    def pause(_: float) -> None:
        waiting.set()

    def write_second() -> None:
        with second.writing("k", pause):
            order.append("second")

    with first.writing("k", pause):
        thread = threading.Thread(target=write_second)
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_waiting_for_the_writer_can_be_given_up(tmp_path: Path) -> None:
    first, second = join(tmp_path, "k", "a"), join(tmp_path, "k", "b")

    def stop(_: float) -> None:
        raise InterruptedError

    with (
        first.writing("k", stop),
        pytest.raises(InterruptedError),
        second.writing("k", stop),
    ):
        pass


# --- The launcher's side --------------------------------------------------------------------------


@contextmanager
def removing(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def test_the_launcher_holds_what_agents_must_not_remove(tmp_path: Path) -> None:
    from warmpod.launcher.weights import Weights

    copy = join(tmp_path, "k", "a")
    weights = Weights([copy.path / RECEIPT_NAME])
    with removing(copy.path):
        assert weights.missing() == [copy.path / RECEIPT_NAME]
    assert weights.missing() == []
    assert not copy.leave(forced=False)
    (copy.path / RECEIPT_NAME).unlink()
    assert weights.missing() == [copy.path / RECEIPT_NAME]
    assert not weights.gone()
    copy.path.joinpath("config.json").unlink()
    copy.path.rmdir()
    assert weights.gone()
