"""What the agent makes of what pods leave in the store of compiled code."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.compile_caches import (
    FILES,
    broken,
    key_of,
    mark,
    new_store,
    offer,
    published,
    rewrite,
)
from warmpod.agent.cache import store as store_module
from warmpod.agent.cache.store import UNFINISHED_SECONDS, CompileStore
from warmpod.compilecache import entry as entries
from warmpod.compilecache import layout

MOST_BYTES = 1024**2
OTHER = {"driver": "550.1"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return new_store(tmp_path / "store")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(root: Path, clock: Clock) -> CompileStore:
    return CompileStore(root, MOST_BYTES, clock=clock)


def incoming(root: Path) -> list[str]:
    return sorted(os.listdir(root / layout.INCOMING))


def used(root: Path, **changed: Any) -> None:
    """A pod has filled its cache; marks are only as fine as the file system's clock."""
    mark(root, layout.USED, **changed)


# --- offers ---------------------------------------------------------------------------------


def test_an_offer_is_taken_over(root: Path, store: CompileStore) -> None:
    offer(root)
    store.look()
    assert published(root) == {key_of(): FILES}
    assert incoming(root) == []
    assert (store.state.entries, store.state.admitted) == (1, 1)
    assert store.state.bytes > len(FILES["vllm/aot/model"])
    facts = (root / layout.PUBLISHED / key_of()).stat()
    assert facts.st_mode & 0o777 == 0o755


def test_pods_may_add_to_what_comes_in_and_read_what_is_published(
    root: Path, store: CompileStore
) -> None:
    """Any pod may write; with the sticky bit and without the right to list, only its own."""
    store.look()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()}
    assert modes == {layout.PUBLISHED: 0o755, layout.INCOMING: 0o1733, layout.SET_ASIDE: 0o700}


def test_the_first_of_two_offers_wins(root: Path, store: CompileStore) -> None:
    offer(root)
    store.look()
    offer(root, {"other": b"x"})
    offer(root, {"another": b"x"})
    store.look()
    assert published(root) == {key_of(): FILES}
    assert incoming(root) == []
    assert store.state.admitted == 1


def test_two_pods_at_once_on_an_empty_store(root: Path, store: CompileStore) -> None:
    offer(root, {"a": b"1"})
    offer(root, {"a": b"2"})
    store.look()
    assert list(published(root)) == [key_of()]
    assert broken(root) == []


def _link_to(target: str) -> Callable[[Path], None]:
    def harm(made: Path) -> None:
        file = made / entries.FILES / "vllm/aot/model"
        file.unlink()
        file.symlink_to(target)

    return harm


def _link_in_the_way(made: Path) -> None:
    folder = made / entries.FILES / "vllm"
    folder.rename(made.parent / "moved")
    folder.symlink_to(made.parent / "moved")


def _whole_tree_is_a_link(made: Path) -> None:
    made.rename(made.parent / "moved")
    made.symlink_to(made.parent / "moved")


def _manifest_is_a_link(made: Path) -> None:
    manifest = made / entries.MANIFEST
    manifest.rename(made / "elsewhere")
    manifest.symlink_to(made / "elsewhere")


def _pipe(made: Path) -> None:
    file = made / entries.FILES / "triton/k.cubin"
    file.unlink()
    os.mkfifo(file)


def _socket(made: Path) -> None:
    file = made / entries.FILES / "empty"
    file.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(file.parent)
        listener.bind(file.name)


def _device(made: Path) -> None:
    file = made / entries.FILES / "triton/k.cubin"
    file.unlink()
    os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero: it never ends


def _path(path: str) -> Callable[[Path], None]:
    def harm(made: Path) -> None:
        found = entries.read(made).files[0]
        rewrite(made, files=[{**vars_of(found), "path": path}], bytes=found.size)

    return harm


def vars_of(file: entries.StoredFile) -> dict[str, Any]:
    return {name: getattr(file, name) for name in file.__dataclass_fields__}


def _mode(mode: float) -> Callable[[Path], None]:
    def harm(made: Path) -> None:
        files = [{**vars_of(file), "mode": mode} for file in entries.read(made).files]
        rewrite(made, files=files)

    return harm


def _content(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def harm(made: Path) -> None:
        file = made / entries.FILES / "vllm/aot/model"
        file.write_bytes(change(file.read_bytes()))

    return harm


def _sparse(made: Path) -> None:
    """Says that it is small, and is a terabyte."""
    os.truncate(made / entries.FILES / "vllm/aot/model", 2**40)


def _says_that_it_is_large(made: Path) -> None:
    found = entries.read(made).files
    files = [{**vars_of(file), "size": MOST_BYTES} for file in found]
    rewrite(made, files=files, bytes=MOST_BYTES * len(files))


def _other_name(made: Path) -> None:
    made.rename(made.with_name(layout.new_offer(key_of(**OTHER))[1]))


def _is_a_file(made: Path) -> None:
    made.rename(made.parent / "moved")
    made.write_text("{}")


def _manifest(text: str) -> Callable[[Path], None]:
    return lambda made: (made / entries.MANIFEST).write_text(text) and None


HARMFUL: dict[str, Callable[[Path], None]] = {
    "link to a file of the node": _link_to("/etc/passwd"),
    "link to a directory of the node": _link_to("/etc"),
    "link to its own file": _link_to("../../triton/k.cubin"),
    "link in the way": _link_in_the_way,
    "link in place of the offer": _whole_tree_is_a_link,
    "link in place of the manifest": _manifest_is_a_link,
    "pipe": _pipe,
    "socket": _socket,
    "device": _device,
    "path that leads up": _path("../../../published/x"),
    "path from the root": _path("/etc/x"),
    "path with a dot": _path("vllm/./aot/model"),
    "path of nothing": _path(""),
    "path of a directory": _path("vllm"),
    "path of its manifest": _path("../entry.json"),
    "path with a NUL": _path("a\0b"),
    "mode that is no whole number": _mode(float(0o644)),
    "shorter": _content(lambda data: data[:-1]),
    "longer": _content(lambda data: data + b"x"),
    "empty": _content(lambda data: b""),
    "other content": _content(lambda data: b"x" + data[1:]),
    "huge": _sparse,
    "more than the store may hold": _says_that_it_is_large,
    "name of another": _other_name,
    "file": _is_a_file,
    "no manifest": lambda made: (made / entries.MANIFEST).unlink(),
    "no JSON": _manifest("{"),
    "JSON of something else": _manifest("[]"),
    "deep JSON": _manifest("[" * 100_000),
    "manifest that never ends": lambda made: os.truncate(made / entries.MANIFEST, 2**40),
    "later format": lambda made: rewrite(made, format=2),
    "key that is not that of the factors": lambda made: rewrite(made, key=key_of(**OTHER)),
    "no files": lambda made: rewrite(made, files=[], bytes=0),
}


@pytest.fixture
def stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a directory; a test goes elsewhere to make a socket of a long path."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("harm", HARMFUL.values(), ids=HARMFUL.keys())
def test_what_is_no_entry_is_refused_and_removed(
    root: Path, store: CompileStore, harm: Callable[[Path], None], stay: None
) -> None:
    made = offer(root)
    harm(made)
    before = Path("/etc/passwd").read_bytes()
    store.look()
    assert published(root) == {}
    assert set(incoming(root)) <= {"moved"}
    assert (store.state.admitted, store.state.refused) == (0, 1)
    assert [path.name for path in (root / layout.PUBLISHED).iterdir()] == []
    assert Path("/etc/passwd").read_bytes() == before
    # It does not stand in the way of a good one.
    offer(root)
    store.look()
    assert published(root) == {key_of(): FILES}


def test_an_offer_that_nobody_has_thought_of_is_refused_like_any_other(
    root: Path, store: CompileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(root)
    with monkeypatch.context() as patched:
        patched.setattr(entries, "read", lambda path: None)
        store.look()
    assert (incoming(root), store.state.refused) == ([], 1)
    offer(root)
    store.look()
    assert published(root) == {key_of(): FILES}


def test_files_that_the_manifest_does_not_name_are_not_taken_over(
    root: Path, store: CompileStore
) -> None:
    made = offer(root)
    (made / entries.FILES / "more").write_text("x")
    (made / "beside").write_text("x")
    store.look()
    assert published(root) == {key_of(): FILES}
    found = (root / layout.PUBLISHED / key_of()).iterdir()
    assert {path.name for path in found} == {entries.MANIFEST, entries.FILES}


@pytest.fixture
def rewriting(root: Path) -> Iterator[Callable[[Path], None]]:
    """Writes a file again and again, from another thread."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def begin(path: Path) -> None:
        def write() -> None:
            data, number = path.read_bytes(), 0
            with path.open("r+b") as file:
                while not over.is_set():
                    number += 1
                    file.seek(number % len(data))
                    file.write(bytes([number % 256]))
                    file.flush()

        threads.append(threading.Thread(target=write))
        threads[-1].start()

    yield begin
    over.set()
    for thread in threads:
        thread.join()


def test_what_is_changed_while_it_is_copied_is_whole_or_refused(
    root: Path, store: CompileStore, rewriting: Callable[[Path], None]
) -> None:
    for number in range(10):
        made = offer(root, {"a": os.urandom(100_000)}, driver=str(number))
        rewriting(made / entries.FILES / "a")
        store.look()
        assert broken(root) == []
    assert store.state.admitted + store.state.refused == 10


def test_what_is_not_finished_goes_after_an_hour_whatever_it_says_of_its_age(
    root: Path, store: CompileStore, clock: Clock
) -> None:
    partial = root / layout.INCOMING / f"{layout.PARTIAL}x"
    (partial / "files").mkdir(parents=True)
    os.utime(partial, (1, 1))
    (root / layout.INCOMING / "stranger").symlink_to("/etc")
    store.look()
    clock.now = UNFINISHED_SECONDS
    store.look()
    assert len(incoming(root)) == 2
    os.utime(partial, (2**33, 2**33))
    clock.now += 1
    store.look()
    assert incoming(root) == []
    assert Path("/etc/hostname").parent.is_dir()


def test_a_pod_that_leaves_more_than_anybody_can_look_at_is_not_waited_for(
    root: Path, store: CompileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_ARRIVALS", 10)
    for number in range(25):
        (root / layout.INCOMING / f"junk-{number}").write_text("x")
    offer(root)
    for _ in range(3):
        store.look()
    assert published(root) == {key_of(): FILES}
    assert len(incoming(root)) < 10


# --- marks ----------------------------------------------------------------------------------


def test_an_entry_that_was_bad_is_set_aside_with_its_reason(
    root: Path, store: CompileStore
) -> None:
    offer(root)
    store.look()
    mark(root, layout.BAD, "vllm/aot/model is not what was stored")
    store.look()
    assert published(root) == {}
    aside = root / layout.SET_ASIDE / key_of()
    assert (aside / "why").read_text() == "vllm/aot/model is not what was stored\n"
    assert (aside / entries.MANIFEST).exists()
    assert incoming(root) == []
    assert store.state.set_aside == 1


def test_the_pod_that_found_it_bad_can_offer_a_new_one_at_once(
    root: Path, store: CompileStore
) -> None:
    for number in range(3):
        mark(root, layout.BAD, str(number))
        offer(root, {"a": str(number).encode()})
        store.look()
        assert published(root) == {key_of(): {"a": str(number).encode()}}
    # One of a key is kept, the last.
    (aside,) = (root / layout.SET_ASIDE).iterdir()
    assert (aside / entries.FILES / "a").read_bytes() == b"1"


@pytest.mark.parametrize("kind", [layout.USED, layout.BAD])
def test_marks_about_nothing_and_marks_that_are_none_go_away(
    root: Path, store: CompileStore, kind: str
) -> None:
    mark(root, kind, "why", **OTHER)
    mark(root, kind, "why", driver="1")
    directory = root / layout.INCOMING / f"{kind}-{key_of()}"
    (directory / "deep" / "er").mkdir(parents=True)
    (root / layout.INCOMING / f"{kind}-{key_of(driver='2')}").symlink_to("/etc/passwd")
    offer(root, **OTHER)
    for _ in range(2):
        store.look()
    assert incoming(root) == []
    assert list(published(root)) == [key_of(**OTHER)]


def test_a_mark_that_does_not_say_why_is_one_all_the_same(root: Path, store: CompileStore) -> None:
    offer(root)
    store.look()
    (root / layout.INCOMING / f"{layout.BAD}-{key_of()}").write_text("\x1b[31m not JSON")
    store.look()
    assert published(root) == {}


# --- the bound ------------------------------------------------------------------------------


def fill(root: Path, store: CompileStore, *drivers: str, size: int = 300_000) -> None:
    """Entries of which three fit, the first one used least recently."""
    for number, driver in enumerate(drivers):
        offer(root, {"a": bytes(size)}, driver=driver)
        store.look()
        if (entry := root / layout.PUBLISHED / key_of(driver=driver)).exists():
            os.utime(entry, (number + 1, number + 1))


def test_what_was_used_least_recently_goes_first(root: Path, store: CompileStore) -> None:
    fill(root, store, "a", "b", "c")
    used(root, driver="a")
    store.look()
    assert store.state.entries == 3
    offer(root, {"a": bytes(300_000)}, driver="d")
    store.look()
    assert set(published(root)) == {key_of(driver=driver) for driver in "acd"}
    assert (store.state.entries, store.state.removed) == (3, 1)
    assert store.state.bytes <= MOST_BYTES


def test_many_offers_at_once_take_no_more_room_than_the_store_may_have(
    root: Path, store: CompileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An offer may be sparse, and cost the pod nothing; a copy of it is not."""
    for driver in "abcdefgh":
        offer(root, {"a": bytes(300_000)}, driver=driver)
    taken: list[int] = []
    admit = store_module.admit

    def counted(*arguments: Any) -> Any:
        taken.append(sum(len(files["a"]) for files in published(root).values()))
        return admit(*arguments)

    monkeypatch.setattr(store_module, "admit", counted)
    store.look()
    assert len(taken) == 8
    assert max(taken) <= MOST_BYTES
    assert store.state.bytes <= MOST_BYTES


def test_what_was_set_aside_goes_before_anything_that_can_be_used(
    root: Path, store: CompileStore
) -> None:
    fill(root, store, "a", "b", "c")
    mark(root, layout.BAD, driver="c")
    store.look()
    offer(root, {"a": bytes(300_000)}, driver="d")
    store.look()
    assert set(published(root)) == {key_of(driver=driver) for driver in "abd"}
    assert list((root / layout.SET_ASIDE).iterdir()) == []


def test_the_entry_that_was_used_last_stays_when_the_bound_is_made_smaller(
    root: Path, store: CompileStore
) -> None:
    fill(root, store, "a", "b")
    smaller = CompileStore(root, 1000)
    smaller.look()
    assert list(published(root)) == [key_of(driver="b")]


# --- agents ---------------------------------------------------------------------------------


def test_two_agents_of_one_model_do_not_work_at_the_same_time(
    root: Path, store: CompileStore
) -> None:
    offer(root)
    descriptor = os.open(root, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    store.look()
    assert published(root) == {}
    os.close(descriptor)
    store.look()
    assert published(root) == {key_of(): FILES}


def test_what_an_agent_was_killed_in_is_cleared_by_the_next(
    root: Path, store: CompileStore
) -> None:
    partial = root / layout.PUBLISHED / f"{layout.PARTIAL}offer"
    (partial / "files").mkdir(parents=True)
    removing = root / ".removing" / "x"
    (removing / "deep").mkdir(parents=True)
    store.look()
    assert list((root / layout.PUBLISHED).iterdir()) == []
    assert not removing.parent.exists()


def test_nothing_that_is_wrong_ends_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = CompileStore(tmp_path / "absent", MOST_BYTES)
    store.look()
    store.look()
    assert len(caplog.records) == 1
    store.leave()


def test_what_an_engine_goes_on_writing_does_not_hold_up_the_removal(
    root: Path, store: CompileStore
) -> None:
    """However deep it is: deeper than a path can say, and than there are descriptors."""
    directory = os.open(root / layout.INCOMING, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=directory)
        inner = os.open("d", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = inner
    os.close(directory)
    offer(root)
    store.look()
    store.leave()
    assert list(root.iterdir()) == []


def test_a_store_that_was_left_is_not_made_anew(root: Path, store: CompileStore) -> None:
    store.leave()
    store.look()
    assert list(root.iterdir()) == []
