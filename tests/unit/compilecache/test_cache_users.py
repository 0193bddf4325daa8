"""What the store's modes allow to pods of different users. Needs root, to be another user."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warmpod.compilecache import entry as entries
from warmpod.compilecache.factors import Factors, key
from warmpod.compilecache.layout import (
    BAD,
    INCOMING_MODE,
    USED,
    Store,
    arrival,
    leave_mark,
    new_offer,
    read_mark,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="not root")

ONE, OTHER = 65531, 65532
FACTORS = Factors(image="i")
KEY = key(FACTORS)


@pytest.fixture
def store() -> Iterator[Store]:
    """As the agent makes it; pytest's own directories are open to their user only."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    found = Store(root)
    for path, mode in ((found.published, 0o755), (found.incoming, INCOMING_MODE)):
        path.mkdir()
        path.chmod(mode)
    yield found
    shutil.rmtree(root)


def as_user(user: int, action: Callable[[], object]) -> None:
    """Run it in a process of the user; it must not fail."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            action()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def offer(store: Store) -> None:
    os.umask(0o077)
    work = Path(tempfile.mkdtemp())
    (work / "folder").mkdir()
    (work / "folder/kernel").write_text("compiled")
    partial, name = new_offer(KEY)
    entries.write(work, store.incoming / partial, FACTORS, 0)
    (store.incoming / partial).rename(store.incoming / name)
    shutil.rmtree(work)


def refused(action: Callable[[], object]) -> None:
    with pytest.raises(PermissionError):
        action()


def test_the_agent_can_read_what_any_user_offers(store: Store) -> None:
    as_user(ONE, lambda: offer(store))
    as_user(OTHER, lambda: offer(store))
    one, other = sorted(store.incoming.iterdir())
    entries.copy(entries.read(one), store.published / KEY)
    entries.copy(entries.read(other), store.published / "again")
    entry = entries.read(store.published / KEY)

    def use() -> None:
        target = Path(tempfile.mkdtemp())
        entries.unpack(entry, target)
        shutil.rmtree(target)
        refused(lambda: (store.published / KEY / "entry.json").write_text("mine"))
        refused(lambda: (store.published / "mine").mkdir())

    as_user(OTHER, use)


def test_a_mark_stays_that_of_who_left_it_first(store: Store) -> None:
    as_user(ONE, lambda: leave_mark(store.incoming, BAD, KEY, "one"))
    as_user(OTHER, lambda: leave_mark(store.incoming, BAD, KEY, "other"))
    as_user(OTHER, lambda: leave_mark(store.incoming, USED, KEY))
    mark = arrival(f"bad-{KEY}")
    assert mark is not None
    assert read_mark(store.incoming, mark) == "one"
    path = store.incoming / mark.name
    as_user(OTHER, lambda: refused(path.unlink))
    as_user(OTHER, lambda: refused(lambda: path.write_text("mine")))
    as_user(OTHER, lambda: refused(lambda: os.listdir(store.incoming)))


def test_a_user_cannot_change_what_another_offers(store: Store) -> None:
    as_user(ONE, lambda: offer(store))
    (path,) = store.incoming.iterdir()
    as_user(OTHER, lambda: refused(lambda: path.rename(store.incoming / "mine")))
    as_user(OTHER, lambda: refused(lambda: (path / "files/folder/kernel").write_text("mine")))
    as_user(OTHER, lambda: refused(lambda: (path / "files/more").mkdir()))
