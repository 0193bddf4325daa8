import threading
from pathlib import Path

import pytest

from warmpod.agent.nodecopy import NodeCopy
from warmpod.protocol import RECEIPT_NAME


def join(root: Path, key: str, uid: str) -> NodeCopy:
    copy = NodeCopy(root, key, uid)
    copy.join()
    return copy


def put(copy: NodeCopy) -> None:
    (copy.directory / "config.json").write_text("{}")
    (copy.directory / RECEIPT_NAME).write_text("{}")


def copies(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


def test_the_last_to_leave_frees_the_memory(tmp_path: Path) -> None:
    first, second = join(tmp_path, "k", "a"), join(tmp_path, "k", "b")
    put(first)
    first.leave()
    assert (tmp_path / "k" / "config.json").exists()
    second.leave()
    assert copies(tmp_path) == []
    assert list((tmp_path / ".refs").iterdir()) == []
    assert list((tmp_path / ".fill").iterdir()) == []


def test_joining_and_leaving_twice_is_the_same_as_once(tmp_path: Path) -> None:
    copy = join(tmp_path, "k", "a")
    copy.join()
    put(copy)
    copy.leave()
    copy.leave()
    assert copies(tmp_path) == []


def test_a_copy_that_nobody_needs_goes_at_the_next_start(tmp_path: Path) -> None:
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


def test_earlier_revisions_stay_until_they_are_superseded(tmp_path: Path) -> None:
    old = join(tmp_path, "old", "a")
    put(old)
    new = join(tmp_path, "new", "a")
    put(new)
    assert copies(tmp_path) == ["new", "old"]
    new.drop_superseded()
    assert copies(tmp_path) == ["new"]


def test_leaving_gives_up_earlier_revisions_too(tmp_path: Path) -> None:
    put(join(tmp_path, "old", "a"))
    new = join(tmp_path, "new", "a")
    put(new)
    put(join(tmp_path, "other", "b"))
    new.leave()
    assert copies(tmp_path) == ["other"]


def test_an_earlier_revision_that_another_model_needs_stays(tmp_path: Path) -> None:
    put(join(tmp_path, "shared", "a"))
    join(tmp_path, "shared", "b")
    new = join(tmp_path, "new", "a")
    new.drop_superseded()
    assert copies(tmp_path) == ["new", "shared"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    first, second = join(tmp_path, "k", "a"), join(tmp_path, "k", "b")
    waiting, order = threading.Event(), []

    def pause(_: float) -> None:
        waiting.set()

    def write_second() -> None:
        with second.writing(pause):
            order.append("second")

    with first.writing(pause):
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

    with first.writing(stop), pytest.raises(InterruptedError), second.writing(stop):
        pass
