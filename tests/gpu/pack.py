"""Packs what travels, and hands it out piece by piece."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

from devtools import places
from gpu import bundles, stream

PIECES = bundles.DIRECTORY / "pieces"
TREE = "tree.tar.gz"
GO = Path(__file__).with_name("go")


def pack(names: list[str], piece_bytes: int) -> stream.Index:
    return stream.cut({name: bundles.archive(name) for name in names}, PIECES, piece_bytes)


def write_tree(directory: Path) -> None:
    """The tree as it is now: it is small, so that it travels anew with every piece."""
    directory.mkdir(parents=True, exist_ok=True)
    with tarfile.open(directory / TREE, "w:gz", compresslevel=6) as tar:
        for name in sorted(bundles.tree_files()):
            tar.add(places.ROOT / name, arcname=name)


def hand_out(numbers: range, directory: Path) -> list[stream.Piece]:
    """Leaves in `directory` the tree, the index and the pieces of these numbers, and nothing else.

    For a transfer that takes a bounded number of bytes at a time: send the directory, have the
    machine receive it, hand out what comes next.
    """
    index = stream.read_index(PIECES)
    shutil.rmtree(directory, ignore_errors=True)
    write_tree(directory)
    shutil.copy(GO, directory)
    shutil.copy(PIECES / stream.INDEX, directory)
    wanted = [piece for number, piece in enumerate(index.pieces) if number in numbers]
    for piece in wanted:
        _place(PIECES / piece.sha256, directory / piece.sha256)
    return wanted


def _place(source: Path, target: Path) -> None:
    """A link costs nothing, but only within one file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
