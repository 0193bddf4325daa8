import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.weights.findings import WeightsError
from warmpod.weights.layer import layer_of
from warmpod.weights.manifest import Entry

CONTENT = bytes(range(256)) * 17


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    (directory / "a" / "b").mkdir(parents=True)
    (directory / "a" / "b" / "one").write_bytes(CONTENT)
    (directory / "a" / "two").write_bytes(b"")
    (directory / ("ü" * 70)).write_bytes(b"x" * 512)
    return directory


NAMES = ("a/b/one", "a/two", "ü" * 70)


def test_it_is_the_archive_that_tar_would_make(source: Path) -> None:
    layer = layer_of(source, NAMES, {"made": b"y"})
    expected = io.BytesIO()
    with tarfile.open(fileobj=expected, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in ("a", "a/b"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o555
            archive.addfile(info)
        for name in (*NAMES, "made"):
            info = tarfile.TarInfo(name)
            content = b"y" if name == "made" else (source / name).read_bytes()
            info.size, info.mode = len(content), 0o444
            archive.addfile(info, io.BytesIO(content))
    made = b"".join(layer.read())
    assert made == expected.getvalue()
    assert layer.size == len(made)


def test_digests_of_layer_and_files_in_one_pass(source: Path) -> None:
    layer = layer_of(source, NAMES)
    written = io.BytesIO()
    watched: list[int] = []
    digest, entries = layer.digest(written.write, watched.append)
    assert digest == f"sha256:{hashlib.sha256(written.getvalue()).hexdigest()}"
    assert written.getvalue() == b"".join(layer.read())
    assert entries[0] == Entry("a/b/one", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    assert [entry.path for entry in entries] == list(NAMES)
    assert sum(watched) == len(CONTENT) + 512


@given(start=st.integers(0, 20_480))
def test_it_can_be_read_from_anywhere(source: Path, start: int) -> None:
    layer = layer_of(source, NAMES, {"made": b"y"})
    assert b"".join(layer.read(start)) == b"".join(layer.read())[start:]


def test_no_piece_is_empty_before_the_end(source: Path) -> None:
    assert all(layer_of(source, NAMES).read())


@pytest.mark.parametrize("now", [b"", b"x" * 100, b"x" * 5000])
def test_a_file_that_changes_its_size_is_named(tmp_path: Path, now: bytes) -> None:
    (tmp_path / "shard").write_bytes(b"x" * 4000)
    layer = layer_of(tmp_path, ["shard"])
    (tmp_path / "shard").write_bytes(now)
    with pytest.raises(WeightsError, match=r"shard: its size changed"):
        layer.digest()
    with pytest.raises(WeightsError, match=r"shard: its size changed"):
        list(layer.read())


def test_a_shard_larger_than_ustar_can_say(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(9 * 2**30)
    layer = layer_of(tmp_path, ["big"])
    head = next(layer.read())
    with tarfile.open(fileobj=io.BytesIO(head + bytes(1024)), mode="r|") as archive:
        member = archive.next()
    assert member is not None
    assert member.size == 9 * 2**30
    assert layer.size > 9 * 2**30
