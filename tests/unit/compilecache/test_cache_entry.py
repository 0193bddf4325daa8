"""Entries of a store: what is written can be read, and what was tampered with is refused."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.compilecache import entry as entries
from warmpod.compilecache import manifest
from warmpod.compilecache.entry import Entry, EntryError, GoneError
from warmpod.compilecache.factors import Factors, key
from warmpod.compilecache.files import is_plain

FACTORS = Factors(image="sha256:i", gpu=("NVIDIA H200",))
OLD = 1_600_000_000_123_456_789


def fill(directory: Path) -> None:
    (directory / "vllm/deep").mkdir(parents=True)
    (directory / "vllm/deep/model").write_bytes(b"x" * 3_000_000)
    (directory / "triton").mkdir()
    (directory / "triton/kernel.so").write_bytes(b"elf")
    (directory / "triton/kernel.so").chmod(0o700)
    (directory / "triton/empty.lock").touch()
    os.utime(directory / "triton/kernel.so", ns=(OLD, OLD))


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    fill(path)
    return path


@pytest.fixture
def entry(source: Path, tmp_path: Path) -> Entry:
    return entries.write(source, tmp_path / "entry", FACTORS, 12.7)


def test_what_is_written_is_read_and_unpacked(source: Path, entry: Entry, tmp_path: Path) -> None:
    found = entries.read(tmp_path / "entry")
    assert found == entry
    assert (found.key, found.factors, found.created) == (key(FACTORS), FACTORS, 12)
    assert found.bytes == 3_000_003
    target = tmp_path / "target"
    target.mkdir()
    entries.unpack(found, target)
    assert contents(target) == contents(source)
    kernel = (target / "triton/kernel.so").stat()
    assert (kernel.st_mode & 0o777, kernel.st_mtime_ns) == (0o755, OLD)
    assert (target / "vllm/deep/model").stat().st_mode & 0o777 == 0o644


def test_unpacked_files_replace_those_that_are_there(
    source: Path, entry: Entry, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    fill(target)
    (target / "triton/kernel.so").write_bytes(b"of another version")
    entries.unpack(entry, target)
    assert contents(target) == contents(source)


def test_a_copy_is_the_same_entry(entry: Entry, tmp_path: Path) -> None:
    (entry.directory / "files/not listed").write_bytes(b"x")
    entries.copy(entry, tmp_path / "copy")
    copied = entries.read(tmp_path / "copy")
    assert (copied.files, copied.key, copied.created) == (entry.files, entry.key, entry.created)
    assert not (tmp_path / "copy/files/not listed").exists()
    again = tmp_path / "again"
    again.mkdir()
    entries.unpack(copied, again)


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_others_can_read_an_entry(source: Path, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        made = entries.write(source, tmp_path / "entry", FACTORS, 0)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in made.directory.rglob("*") if path.is_dir()}
    assert modes == {0o755}
    assert (made.directory / "entry.json").stat().st_mode & 0o777 == 0o644


def test_only_regular_files_are_kept(source: Path, tmp_path: Path) -> None:
    (source / "link").symlink_to("/etc/hostname")
    (source / "folder-link").symlink_to(source / "vllm")
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(source / "socket"))
    os.close(os.open(os.fsencode(source) + b"/\xff", os.O_CREAT))
    made = entries.write(source, tmp_path / "entry", FACTORS, 0)
    assert {file.path for file in made.files} == {
        "vllm/deep/model",
        "triton/kernel.so",
        "triton/empty.lock",
    }


def test_files_can_be_left_out(source: Path, tmp_path: Path) -> None:
    made = entries.write(
        source, tmp_path / "entry", FACTORS, 0, lambda path, status: status.st_mtime_ns == OLD
    )
    assert "triton/kernel.so" not in {file.path for file in made.files}


def test_a_failed_write_leaves_nothing(source: Path, tmp_path: Path) -> None:
    with pytest.raises(EntryError, match="nothing to keep"):
        entries.write(source, tmp_path / "entry", FACTORS, 0, lambda *_: True)
    assert not (tmp_path / "entry").exists()


def test_entries_are_bounded(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: Entry
) -> None:
    monkeypatch.setattr(entries, "MOST_FILES", 2)
    with pytest.raises(EntryError, match="more than 2 files"):
        entries.write(source, tmp_path / "other", FACTORS, 0)
    monkeypatch.setattr(manifest, "MOST_FILES", 2)
    with pytest.raises(EntryError, match="not from 1 to 2 files"):
        entries.read(entry.directory)
    monkeypatch.setattr(entries, "MOST_MANIFEST_BYTES", 99)
    with pytest.raises(EntryError, match="more than 99 bytes"):
        entries.read(entry.directory)


def truncate(files: Path) -> None:
    os.truncate(files / "vllm/deep/model", 1000)


def empty(files: Path) -> None:
    os.truncate(files / "vllm/deep/model", 0)


def lengthen(files: Path) -> None:
    with (files / "vllm/deep/model").open("ab") as file:
        file.write(b"x")


def flip(files: Path) -> None:
    with (files / "vllm/deep/model").open("r+b") as file:
        file.seek(2_000_000)
        file.write(b"y")


def remove(files: Path) -> None:
    (files / "vllm/deep/model").unlink()


def link(files: Path) -> None:
    remove(files)
    (files / "vllm/deep/model").symlink_to("/etc/hostname")


def link_folder(files: Path) -> None:
    (files / "vllm/deep").rename(files.parent / "deep")
    (files / "vllm/deep").symlink_to(files.parent / "deep")


def link_files(files: Path) -> None:
    files.rename(files.parent / "moved")
    files.symlink_to("moved")


def pipe(files: Path) -> None:
    remove(files)
    os.mkfifo(files / "vllm/deep/model")


DAMAGES = [truncate, empty, lengthen, flip, remove, link, link_folder, link_files, pipe]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(
    damage: Callable[[Path], None], entry: Entry, tmp_path: Path
) -> None:
    damage(entry.directory / "files")
    (tmp_path / "target").mkdir()
    with pytest.raises(EntryError, match=r"model|files"):
        entries.unpack(entries.read(entry.directory), tmp_path / "target")
    with pytest.raises(EntryError):
        entries.copy(entry, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def change(entry: Entry, **fields: Any) -> None:
    path = entry.directory / "entry.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | fields))


def file(**fields: Any) -> dict[str, Any]:
    plain = {"path": "a", "size": 1, "sha256": "0" * 64, "mode": 0o644, "mtime": 1}
    return plain | fields


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"format": 2}, "format 2 in place of 1"),
        ({"key": "0" * 32}, "the key is not that of the factors"),
        ({"factors": {}}, "factors"),
        ({"bytes": 3_000_004}, "not the sum"),
        ({"created": -1}, "created"),
        ({"created": True}, "created"),
        ({"files": []}, "not from 1"),
        ({"files": {}}, "not from 1"),
        ({"files": [1], "bytes": 1}, "not an object"),
        ({"files": [file(more=1)], "bytes": 1}, "not an object"),
        ({"files": [file(path="../a")], "bytes": 1}, "not a plain path"),
        ({"files": [file(path="/a")], "bytes": 1}, "not a plain path"),
        ({"files": [file(path="\ud800")], "bytes": 1}, "not a plain path"),
        ({"files": [file(), file()], "bytes": 2}, "stands twice"),
        ({"files": [file(), file(path="a/b")], "bytes": 2}, "a is a file and a folder"),
        ({"files": [file(mode=0o4755)], "bytes": 1}, "mode"),
        ({"files": [file(mode=float(0o644))], "bytes": 1}, "mode"),
        ({"files": [file(sha256="0")], "bytes": 1}, "SHA-256"),
        ({"files": [file(size=-1)], "bytes": -1}, "size"),
        ({"files": [file(size=2**40)], "bytes": 2**40}, "too much"),
        ({"files": [file(mtime=1.5)], "bytes": 1}, "mtime"),
    ],
)
def test_what_makes_no_sense_is_refused(entry: Entry, fields: dict[str, Any], why: str) -> None:
    change(entry, **fields)
    with pytest.raises(EntryError, match=why):
        entries.read(entry.directory)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"[" * 100_000, b'{"format": 1'])
def test_a_manifest_that_is_none_is_refused(entry: Entry, data: bytes) -> None:
    (entry.directory / "entry.json").write_bytes(data)
    with pytest.raises(EntryError, match=r"entry\.json"):
        entries.read(entry.directory)


def test_a_manifest_is_a_file_of_its_own(entry: Entry, tmp_path: Path) -> None:
    (entry.directory / "entry.json").rename(tmp_path / "elsewhere")
    (entry.directory / "entry.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EntryError, match="cannot be read"):
        entries.read(entry.directory)
    (tmp_path / "link").symlink_to(entry.directory)
    with pytest.raises(EntryError, match="cannot be read"):
        entries.read(tmp_path / "link")


def test_an_entry_that_is_gone_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(GoneError):
        entries.read(tmp_path / "none")


@given(st.text())
def test_plain_paths_stay_below(path: str) -> None:
    if is_plain(path):
        assert os.path.normpath(os.path.join("/below", path)) == f"/below/{path}"


@pytest.mark.parametrize("path", ["", "/", "a/", "/a", "a//b", ".", "a/..", "a\0", "a" * 256])
def test_other_paths_are_not_plain(path: str) -> None:
    assert not is_plain(path)
