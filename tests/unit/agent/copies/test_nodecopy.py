import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unit.agent.users import used
from warmpod.agent.copies import nodecopy
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.inuse import Use
from warmpod.protocol import RECEIPT_NAME, USERS_LOCK

# Longer than an agent that restarts may be away: the kubelet's back-off of 5 minutes, and a pull.
LONG_AGO = 16 * 60.0


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


@contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    """A directory as a process on this node locks it; a file as one on any node that shares it."""
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    fcntl.flock(descriptor, kind)
    try:
        yield
    finally:
        os.close(descriptor)


def copies(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


@pytest.fixture(autouse=True)
def long_running_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a ref can be old in the node's present life."""
    monkeypatch.setattr(time, "clock_gettime", lambda _: 10 * LONG_AGO)


def age(root: Path, key: str, uid: str, seconds: float = LONG_AGO) -> None:
    ref = root / ".refs" / key / uid
    os.utime(ref, (time.time() - seconds, time.time() - seconds))


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
        # The engine may hold its lock on the one file that is left.
        assert [path.name for path in copy.path.iterdir()] == [USERS_LOCK]
        assert opened.read() == "{}"


# --- Who shares a file system with this node ------------------------------------------------------


def test_an_engine_of_another_node_keeps_the_copy_by_the_file(tmp_path: Path) -> None:
    copy = join(tmp_path, "k", "a")
    with locked(copy.path / USERS_LOCK, fcntl.LOCK_SH):
        assert not copy.leave(forced=False)
        assert (copy.path / RECEIPT_NAME).exists()
    assert copy.leave(forced=False)
    assert copies(tmp_path) == []


def test_an_engine_that_holds_the_directory_only_keeps_the_copy(tmp_path: Path) -> None:
    """Its launcher is of an earlier version, or it started on a copy of one."""
    copy = join(tmp_path, "k", "a")
    with locked(copy.path, fcntl.LOCK_SH):
        assert not copy.leave(forced=False)
    assert copy.leave(forced=False)


def test_a_copy_of_an_earlier_version_goes_without_the_file(tmp_path: Path) -> None:
    stale = tmp_path / "stale"
    stale.mkdir()
    (stale / RECEIPT_NAME).write_text("{}")
    copy = join(tmp_path, "k", "a")
    assert copies(tmp_path) == ["k"]
    (copy.path / USERS_LOCK).unlink()
    assert copy.leave(forced=False)
    assert copies(tmp_path) == []


def test_the_file_is_made_once_and_readable_by_all(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        copy = join(tmp_path, "k", "a")
    finally:
        os.umask(before)
    made = (copy.path / USERS_LOCK).stat()
    assert made.st_mode & 0o777 == 0o644
    copy.join()
    join(tmp_path, "k", "b")
    assert (copy.path / USERS_LOCK).stat().st_ino == made.st_ino


def test_a_directory_with_nothing_but_the_file_is_no_copy_to_remove(tmp_path: Path) -> None:
    copy = join(tmp_path, "k", "a")
    with used(copy.path):
        copy.leave(forced=True)
    join(tmp_path, "other", "b")
    assert copies(tmp_path) == ["k", "other"]


def test_a_file_of_another_user_keeps_the_copy(tmp_path: Path, monkeypatch) -> None:
    copy = join(tmp_path, "k", "a")
    plain = os.open

    def refusing(path, flags, *arguments, **options) -> int:
        if Path(path).name == USERS_LOCK and flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)
    assert not copy.leave(forced=False)
    assert (copy.path / RECEIPT_NAME).exists()


# --- Agents that were killed ----------------------------------------------------------------------


def test_the_ref_of_a_killed_agent_goes_after_a_quarter_of_an_hour(tmp_path: Path) -> None:
    join(tmp_path, "gone", "a").close()
    other = join(tmp_path, "k", "b")
    age(tmp_path, "gone", "a", 14 * 60.0)
    other.join()
    assert copies(tmp_path) == ["gone", "k"]
    age(tmp_path, "gone", "a")
    other.join()
    assert copies(tmp_path) == ["k"]
    assert [path.name for path in (tmp_path / ".refs").iterdir()] == ["k"]


def test_another_who_needs_the_copy_keeps_it(tmp_path: Path) -> None:
    join(tmp_path, "k", "a").close()
    other = join(tmp_path, "k", "b")
    age(tmp_path, "k", "a")
    other.join()
    assert [path.name for path in (tmp_path / ".refs" / "k").iterdir()] == ["b"]
    assert (other.path / RECEIPT_NAME).exists()


def test_an_agent_that_comes_back_late_keeps_its_own(tmp_path: Path) -> None:
    join(tmp_path, "k", "a").close()
    age(tmp_path, "k", "a")
    back = Copies(tmp_path, "k", "a")
    assert (back.path / RECEIPT_NAME).exists()


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_drops_nothing(tmp_path: Path, monkeypatch, step: float) -> None:
    """All times of the file system move against the monotonic clock: that is as if this moved."""
    join(tmp_path, "back-off", "a").close()
    other = join(tmp_path, "k", "b")
    age(tmp_path, "back-off", "a", 60.0 + step)
    monkeypatch.setattr(time, "clock_gettime", lambda _: 10 * LONG_AGO - step)
    other.join()
    assert copies(tmp_path) == ["back-off", "k"]


def test_agents_that_sweep_at_once_and_one_that_comes_back(tmp_path: Path) -> None:
    """Whoever is first, the one that came back has its ref, and a directory that is still there."""
    for turn in range(20):
        join(tmp_path, "k", "a").close()
        age(tmp_path, "k", "a")
        sweepers = [NodeCopies(tmp_path, f"s{number}", ["other"]) for number in range(3)]
        back = NodeCopies(tmp_path, "a", ["k"])
        threads = [threading.Thread(target=each.join) for each in (*sweepers, back)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert (tmp_path / ".refs" / "k" / "a").exists(), turn
        assert (tmp_path / "k" / USERS_LOCK).exists(), turn
        for each in (*sweepers, back):
            each.leave(forced=False)


def test_what_another_node_removes_meanwhile_is_nothing_to_fail_on(tmp_path, monkeypatch) -> None:
    """Where the file system passes no locks on."""
    join(tmp_path, "gone", "a").close()
    other = join(tmp_path, "k", "b")
    plain = nodecopy._is_held

    def too_late(ref: Path) -> bool:
        if ref.parent.name == "gone":
            ref.unlink(missing_ok=True)
        return plain(ref)

    monkeypatch.setattr(nodecopy, "_is_held", too_late)
    other.join()
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


def test_the_launcher_holds_what_agents_must_not_remove(tmp_path: Path) -> None:
    from warmpod.launcher.weights import Weights

    copy = join(tmp_path, "k", "a")
    weights = Weights([copy.path / RECEIPT_NAME])
    for path in (copy.path, copy.path / USERS_LOCK):
        with locked(path, fcntl.LOCK_EX):
            assert weights.missing() == [copy.path / RECEIPT_NAME]
    assert weights.missing() == []
    assert not copy.leave(forced=False)
    (copy.path / RECEIPT_NAME).unlink()
    assert weights.missing() == [copy.path / RECEIPT_NAME]
    assert not weights.gone()
    for path in copy.path.iterdir():
        path.unlink()
    copy.path.rmdir()
    assert weights.gone()


def is_free(path: Path) -> bool:
    with path.open("r+") as file:
        return nodecopy.try_lock(file.fileno(), fcntl.LOCK_EX)


def test_the_file_is_held_also_when_it_comes_with_the_receipt(tmp_path: Path) -> None:
    use = Use(tmp_path / "k" / RECEIPT_NAME, pytest.fail)
    assert not use.complete()
    (tmp_path / "k").mkdir()
    assert not use.complete()
    copy = join(tmp_path, "k", "a")
    assert use.complete()
    assert not is_free(copy.path / USERS_LOCK)
    use.close()
    assert is_free(copy.path / USERS_LOCK)


def test_an_engine_starts_on_a_copy_of_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / RECEIPT_NAME).write_text("{}")
    with used(tmp_path / "k"):
        copy = join(tmp_path, "k", "a")
        assert not copy.leave(forced=False)


@pytest.mark.parametrize("name", [RECEIPT_NAME, USERS_LOCK])
def test_a_copy_that_goes_while_it_is_locked_is_not_used(tmp_path, monkeypatch, name) -> None:
    copy = join(tmp_path, "k", "a")
    plain = fcntl.flock

    def late(descriptor: int, kind: int) -> None:
        (copy.path / name).unlink(missing_ok=True)
        (copy.path / RECEIPT_NAME).unlink(missing_ok=True)
        plain(descriptor, kind)

    use = Use(copy.path / RECEIPT_NAME, pytest.fail)
    monkeypatch.setattr(fcntl, "flock", late)
    assert not use.complete()


def test_a_directory_that_another_node_removed_is_gone(tmp_path: Path, monkeypatch) -> None:
    copy = join(tmp_path, "k", "a")
    use = Use(copy.path / RECEIPT_NAME, pytest.fail)
    assert use.complete()

    def stale(_: int) -> os.stat_result:
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as removed:
        removed.setattr(os, "fstat", stale)
        gone, complete = use.gone(), use.complete()
    assert gone
    assert not complete


def test_a_file_system_without_locks_is_told_and_used(tmp_path: Path, monkeypatch) -> None:
    copy = join(tmp_path, "k", "a")
    told: list[str] = []

    def unsupported(_: int, __: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    use = Use(copy.path / RECEIPT_NAME, told.append)
    assert use.complete()
    assert use.complete()
    assert [str(copy.path) in line and "No locks" in line for line in told] == [True, True]


def test_a_clock_that_is_set_back_does_not_turn_revisions_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = join(tmp_path, "k1", "a")
    yesterday = time.time_ns() - 86_400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: yesterday)
    join(tmp_path, "k2", "a").close()
    old.drop_superseded()
    assert copies(tmp_path) == ["k1", "k2"]  # the later agent only restarts
    old.close()
    join(tmp_path, "k2", "a").drop_superseded()
    assert copies(tmp_path) == ["k2"]


def test_a_ref_that_found_no_room_is_written_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(tmp_path, "k1", "a").close()
    later = NodeCopies(tmp_path, "a", ["k2"])

    def full(_: int, __: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            later.join()
    later.join()
    later.drop_superseded()
    assert copies(tmp_path) == ["k2"]


@pytest.mark.parametrize("name", [".refs", ".refs/k", ".fill", "k"])
def test_links_in_place_of_own_folders_are_not_followed(tmp_path: Path, name: str) -> None:
    """Who writes to a claim may put them there."""
    assert put_link(tmp_path, name, "folder") == errno.ELOOP
    assert list((tmp_path / "victim" / "folder").iterdir()) == []


@pytest.mark.parametrize("name", [".lock", ".refs/k/a", ".fill/k"])
def test_nor_are_links_in_place_of_own_files(tmp_path: Path, name: str) -> None:
    assert put_link(tmp_path, name, "file") == errno.ELOOP
    assert (tmp_path / "victim" / "file").read_text() == "x"


def put_link(folder: Path, name: str, victim: str) -> int | None:
    """What the agent says of it."""
    (folder / "victim" / "folder").mkdir(parents=True)
    (folder / "victim" / "file").write_text("x")
    link = folder / "root" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder / "victim" / victim)
    weights = NodeCopies(folder / "root", "a", ["k"])
    try:
        weights.join()
        with weights.writing("k", time.sleep):
            return None
    except OSError as error:
        return error.errno
