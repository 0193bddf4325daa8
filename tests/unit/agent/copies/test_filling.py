import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unit.weights.models import (
    SHARDS,
    as_of_an_earlier_version,
    make_model,
    rewrite_in_time,
    spoil_unseen,
)
from warmpod import reasons
from warmpod.agent.copies import filling
from warmpod.agent.copies.filling import NoRoom, fill, is_filled
from warmpod.agent.progress import Cancelled
from warmpod.protocol import RECEIPT_NAME
from warmpod.weights import hashing, manifest
from warmpod.weights.hashing import unwatched
from warmpod.weights.verify import Expectations, expectations


@pytest.fixture
def source(tmp_path: Path) -> Path:
    # Shards of several pieces, so that a copy can be stopped in the middle of one.
    directory = make_model(tmp_path / "source", shard_bytes=3_000_000)
    manifest.write(directory, manifest.from_directory(directory))
    return directory


@pytest.fixture
def expected(source: Path) -> Expectations:
    return expectations(source)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def visible(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not path.relative_to(directory).as_posix().startswith(".")
    }


def test_copies_everything_and_writes_the_receipt(source, target, expected) -> None:
    assert not is_filled(target, expected)
    assert fill(source, target, expected, unwatched) == ()
    assert is_filled(target, expected)
    want = visible(source)
    del want[manifest.MANIFEST_NAME]
    assert visible(target) == want
    assert sorted(p.name for p in target.iterdir() if p.name.startswith(".")) == [RECEIPT_NAME]
    for path in target.rglob("*"):
        if path.name != RECEIPT_NAME:
            assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o444)


def flip_source(source: Path) -> None:
    with (source / SHARDS[1]).open("r+b") as file:
        file.seek(2_999_999)
        file.write(b"\xff")


def test_a_bad_file_is_named_and_gets_no_receipt(source, target, expected) -> None:
    flip_source(source)
    (finding,) = fill(source, target, expected, unwatched)
    assert (finding.path, finding.reason) == (SHARDS[1], reasons.DIGEST_MISMATCH)
    assert not (target / RECEIPT_NAME).exists()
    assert not (target / SHARDS[1]).exists()
    assert not is_filled(target, expected)


class CountingCopies:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self._copy = filling._copy_content
        monkeypatch.setattr(filling, "_copy_content", self)

    def __call__(self, source: Path, temporary: Path, watch, ahead: bool) -> str:
        self.names.append(source.name)
        return self._copy(source, temporary, watch, ahead)


def test_only_the_bad_file_is_copied_again(source, target, expected, monkeypatch) -> None:
    fill(source, target, expected, unwatched)
    shard = target / SHARDS[0]
    shard.chmod(0o644)
    shard.write_bytes(b"\x00" * 3_000_000)
    assert not is_filled(target, expected)
    copies = CountingCopies(monkeypatch)
    assert fill(source, target, expected, unwatched) == ()
    assert copies.names == [SHARDS[0]]
    assert is_filled(target, expected)


def test_a_doubted_file_is_read_again_and_only_copied_if_it_is_bad(
    source, target, expected, monkeypatch
) -> None:
    fill(source, target, expected, unwatched)
    facts = (target / SHARDS[0]).stat()
    spoil_unseen(target / SHARDS[0], monkeypatch)
    assert (target / SHARDS[0]).stat().st_mtime_ns == facts.st_mtime_ns
    assert is_filled(target, expected)
    copies = CountingCopies(monkeypatch)
    assert fill(source, target, expected, unwatched, SHARDS) == ()
    assert copies.names == [SHARDS[0]]
    assert (target / SHARDS[0]).read_bytes() == (source / SHARDS[0]).read_bytes()


def test_a_receipt_from_before_the_node_started_is_not_trusted(
    source, target, expected, monkeypatch, tmp_path
) -> None:
    fill(source, target, expected, unwatched)
    (tmp_path / "boot").write_text("another\n")
    monkeypatch.setattr("warmpod.weights.receipt.BOOT_ID", tmp_path / "boot")
    assert not is_filled(target, expected)
    copies = CountingCopies(monkeypatch)
    assert fill(source, target, expected, unwatched) == ()
    assert copies.names == []
    assert is_filled(target, expected)


def test_a_receipt_of_an_earlier_version_costs_reading_once(
    source, target, expected, monkeypatch
) -> None:
    fill(source, target, expected, unwatched)
    as_of_an_earlier_version(target / RECEIPT_NAME)
    assert not is_filled(target, expected)
    copies = CountingCopies(monkeypatch)
    assert fill(source, target, expected, unwatched) == ()
    assert copies.names == []
    assert is_filled(target, expected)


def test_a_copy_that_was_written_to_is_not_whole(source, target, expected, monkeypatch) -> None:
    fill(source, target, expected, unwatched)
    rewrite_in_time(target / SHARDS[0])
    assert not is_filled(target, expected)
    copies = CountingCopies(monkeypatch)
    assert fill(source, target, expected, unwatched) == ()
    assert copies.names == [SHARDS[0]]
    assert is_filled(target, expected)


def test_what_is_written_to_while_the_rest_is_adopted_is_read_once_more(
    source, target, expected
) -> None:
    fill(source, target, expected, unwatched)
    (target / RECEIPT_NAME).unlink()
    pending = expected.size

    def watch(count: int) -> None:
        nonlocal pending
        pending -= count
        if pending == 0:
            rewrite_in_time(target / SHARDS[0])

    assert fill(source, target, expected, watch) == ()
    assert pending < 0
    assert is_filled(target, expected)
    assert (target / SHARDS[0]).read_bytes() == (source / SHARDS[0]).read_bytes()


@pytest.mark.parametrize("with_manifest", [True, False])
def test_a_source_that_is_written_to_while_it_is_copied(
    source, target, with_manifest: bool
) -> None:
    """Without a manifest, files that were whole when they were read may be of two versions."""
    if not with_manifest:
        (source / manifest.MANIFEST_NAME).unlink()
    expected = expectations(source)
    pending = expected.size

    def watch(count: int) -> None:
        nonlocal pending
        pending -= count
        if pending == 0:
            rewrite_in_time(source / SHARDS[0])

    found = fill(source, target, expected, watch)
    wanted = [] if with_manifest else [(SHARDS[0], reasons.NOT_RESIDENT)]
    assert [(finding.path, finding.reason) for finding in found] == wanted
    assert is_filled(target, expected) == with_manifest


def test_a_file_that_went_away_is_brought_back(source, target, expected, monkeypatch) -> None:
    fill(source, target, expected, unwatched)
    (target / "original" / "params.json").unlink()
    assert not is_filled(target, expected)
    copies = CountingCopies(monkeypatch)
    fill(source, target, expected, unwatched)
    assert copies.names == ["params.json"]
    assert is_filled(target, expected)


def test_content_without_a_receipt_is_not_trusted_but_reused(
    source, target, expected, monkeypatch
) -> None:
    fill(source, target, expected, unwatched)
    (target / RECEIPT_NAME).unlink()
    assert not is_filled(target, expected)
    copies = CountingCopies(monkeypatch)
    fill(source, target, expected, unwatched)
    assert copies.names == []
    assert is_filled(target, expected)


def test_the_receipt_goes_before_anything_changes(source, target, expected) -> None:
    fill(source, target, expected, unwatched)
    (target / "config.json").unlink()
    seen = []
    fill(source, target, expected, lambda _: seen.append((target / RECEIPT_NAME).exists()))
    assert seen
    assert not any(seen)


def test_files_of_another_version_go(source, target, expected) -> None:
    (target / "old.safetensors").write_text("x")
    fill(source, target, expected, unwatched)
    assert not (target / "old.safetensors").exists()
    (target / "new.safetensors").write_text("x")
    assert not is_filled(target, expected)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("stop_after", range(9))
def test_stopped_anywhere_it_is_never_complete_and_always_converges(
    source, target, expected, stop_after, monkeypatch, one_thread
) -> None:
    monkeypatch.setattr(hashing, "_pool", lambda: one_thread)
    pieces = 0

    def watch(_: int) -> None:
        nonlocal pieces
        pieces += 1
        if pieces > stop_after:
            raise Cancelled

    try:
        fill(source, target, expected, watch)
        stopped = False
    except Cancelled:
        stopped = True
    assert is_filled(target, expected) is not stopped
    for path, content in visible(target).items():
        assert content == (source / path).read_bytes(), "a half-written file can be seen"
    assert fill(source, target, expected, unwatched) == ()
    assert is_filled(target, expected)


def test_no_room_says_how_much_is_needed(source, target, expected, monkeypatch) -> None:
    class Full:
        f_bavail = 10
        f_frsize = 4096

    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    with pytest.raises(NoRoom, match=r"5\.8Mi of weights do not fit the 40\.0Ki left"):
        fill(source, target, expected, unwatched)
    assert not (target / SHARDS[0]).exists()


def test_a_limit_that_is_too_small_is_told_before_writing(
    source, target, expected, monkeypatch
) -> None:
    monkeypatch.setattr("warmpod.agent.residency.memory._limit", lambda: 4096)
    with pytest.raises(NoRoom, match="memory limit"):
        fill(source, target, expected, unwatched)
    assert visible(target) == {}


def test_without_a_manifest_what_was_read_is_what_counts(tmp_path: Path, target: Path) -> None:
    source = make_model(tmp_path / "plain")
    expected = expectations(source)
    assert fill(source, target, expected, unwatched) == ()
    assert is_filled(target, expected)
    assert visible(target) == visible(source)


def test_names_that_are_not_utf_8_are_copied(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "odd"
    source.mkdir(mode=0o755)
    source.chmod(0o755)
    odd = Path(os.fsdecode(os.fsencode(source) + b"/a\xff.bin"))
    odd.write_bytes(b"x")
    odd.chmod(0o644)
    assert fill(source, target, expectations(source), unwatched) == ()
    assert (target / odd.name).read_bytes() == b"x"
