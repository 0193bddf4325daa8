"""Cutting, receiving and putting together again."""

import tarfile
from pathlib import Path

import pytest

from gpu import stream

PIECE_BYTES = 4000


@pytest.fixture
def archives(tmp_path: Path) -> dict[str, Path]:
    """The first one is compressed, and each ends within a piece."""
    found = {}
    for name, size, mode in (("first", 9000, "w:xz"), ("second", 30_000, "w"), ("third", 5, "w")):
        source = tmp_path / name
        source.write_bytes(bytes(number * len(name) % 251 for number in range(size)))
        (tmp_path / f"{name}-link").symlink_to("/bin/elsewhere")
        found[name] = tmp_path / f"{name}.tar"
        with tarfile.open(found[name], mode) as tar:
            for path in (source, tmp_path / f"{name}-link"):
                tar.add(path, arcname=f"below/{path.name}")
    return found


def test_what_arrives_is_what_was_cut(archives: dict[str, Path], tmp_path: Path):
    sent, store, target = tmp_path / "sent", tmp_path / "store", tmp_path / "target"
    index = stream.cut(archives, sent, PIECE_BYTES)
    assert {piece.size for piece in index.pieces[:-1]} == {PIECE_BYTES}
    assert stream.receive(index, sent, store) == []
    for name in archives:
        stream.unpack(index, name, store, target)
        assert (target / "below" / name).read_bytes() == (tmp_path / name).read_bytes()
        assert (target / "below" / f"{name}-link").is_symlink()


def test_a_bundle_can_be_unpacked_as_soon_as_its_own_pieces_are_there(
    archives: dict[str, Path], tmp_path: Path
):
    sent, store = tmp_path / "sent", tmp_path / "store"
    index = stream.cut(archives, sent, PIECE_BYTES)
    needed = [piece.sha256 for _, piece in index.pieces_of("second")]
    for name in needed:
        assert not stream.has_arrived(index, "second", store)
        stream.receive(index, only(sent, name, tmp_path / name[:8]), store)
    assert stream.has_arrived(index, "second", store)
    assert not stream.has_arrived(index, "third", store)
    stream.unpack(index, "second", store, tmp_path / "target")
    assert [path.name for path in (tmp_path / "target").rglob("second")] == ["second"]


def test_a_transfer_goes_on_where_it_broke_off(archives: dict[str, Path], tmp_path: Path):
    sent, store = tmp_path / "sent", tmp_path / "store"
    index = stream.cut(archives, sent, PIECE_BYTES)
    first, second, *others = index.pieces
    half = only(sent, first.sha256, tmp_path / "half")
    (half / second.sha256).write_bytes((sent / second.sha256).read_bytes()[:-1])
    assert stream.receive(index, half, store) == [second.sha256]
    assert stream.missing(index, store) == [second, *others]
    assert stream.receive(index, sent, store) == []
    assert stream.missing(index, store) == []


def test_unchanged_archives_keep_their_pieces(archives: dict[str, Path], tmp_path: Path):
    sent = tmp_path / "sent"
    before = stream.cut(archives, sent, PIECE_BYTES)
    times = {path.name: path.stat().st_mtime_ns for path in sent.iterdir()}
    with tarfile.open(archives["third"], "w") as tar:
        tar.add(archives["first"], arcname="another")
    after = stream.cut(archives, sent, PIECE_BYTES)
    kept = [piece for _, piece in before.pieces_of("first")]
    assert [piece for _, piece in after.pieces_of("first")] == kept
    assert all((sent / piece.sha256).stat().st_mtime_ns == times[piece.sha256] for piece in kept)
    names = {piece.sha256 for piece in after.pieces} | {stream.INDEX}
    assert {path.name for path in sent.iterdir()} == names


def test_the_index_is_read_as_it_was_written(archives: dict[str, Path], tmp_path: Path):
    index = stream.cut(archives, tmp_path / "sent", PIECE_BYTES)
    assert stream.read_index(tmp_path / "sent") == index


def only(sent: Path, name: str, directory: Path) -> Path:
    directory.mkdir()
    (directory / name).write_bytes((sent / name).read_bytes())
    return directory
