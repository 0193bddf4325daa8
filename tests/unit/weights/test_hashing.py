import hashlib
import os
import threading
from pathlib import Path

import pytest

from warmpod.weights.hashing import (
    PIECE_BYTES,
    cores_are_idle,
    map_in_threads,
    sha256_of,
    sha256_of_open,
)

SIZES = [0, 1, PIECE_BYTES, 9 * PIECE_BYTES + 5]
both_ways = pytest.mark.parametrize("ahead", [False, True])


@both_ways
@pytest.mark.parametrize("size", SIZES)
def test_digest_pieces_and_offsets(tmp_path: Path, size: int, ahead: bool) -> None:
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    used, watched = bytearray(size), 0

    def use(piece: memoryview, offset: int) -> None:
        used[offset : offset + len(piece)] = piece

    def watch(count: int) -> None:
        nonlocal watched
        watched += count

    with (tmp_path / "file").open("rb", buffering=0) as file:
        sha256 = sha256_of_open(file, watch, use, ahead=ahead)
    assert sha256 == hashlib.sha256(content).hexdigest()
    assert (used, watched) == (content, size)


@both_ways
def test_whoever_watches_can_stop_it(tmp_path: Path, ahead: bool) -> None:
    (tmp_path / "file").write_bytes(bytes(9 * PIECE_BYTES))

    def stop(_: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        sha256_of(tmp_path / "file", stop, ahead=ahead)
    assert "read-ahead" not in {thread.name for thread in threading.enumerate()}


@both_ways
def test_an_error_while_reading_is_raised_here(tmp_path: Path, ahead: bool) -> None:
    (tmp_path / "file").write_bytes(b"x")

    def fail(_: memoryview, __: int) -> None:
        raise OSError("disk")

    with (tmp_path / "file").open("rb", buffering=0) as file, pytest.raises(OSError, match="disk"):
        sha256_of_open(file, use=fail, ahead=ahead)


@pytest.mark.parametrize(
    ("cores", "files", "idle"), [(1, 1, False), (2, 1, True), (8, 4, True), (8, 5, False)]
)
def test_reading_ahead_wants_two_cores_a_file(monkeypatch, cores, files, idle) -> None:
    monkeypatch.setattr("warmpod.weights.hashing.usable_cores", lambda: cores)
    assert cores_are_idle(files) is idle


def test_results_come_in_order_and_the_first_error_ends_the_work() -> None:
    assert map_in_threads(lambda n: n * n, range(50)) == [n * n for n in range(50)]
    done: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            raise ValueError("first")
        done.append(number)

    with pytest.raises(ValueError, match="first"):
        map_in_threads(work, range(10_000))
    finished = len(done)
    map_in_threads(lambda n: n, range(50))
    assert len(done) == finished, "work went on after the error was raised"
