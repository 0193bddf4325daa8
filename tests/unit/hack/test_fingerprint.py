"""A fingerprint changes with what goes into an image, and with nothing else."""

from pathlib import Path

import pytest

from devtools import fingerprint


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text("a")
    (tmp_path / "other.txt").write_text("other")
    return tmp_path


def of(tree: Path, *further: str) -> str:
    return fingerprint.of_sources(tree, ["package"], *further)


def test_content_counts(tree: Path):
    before = of(tree)
    (tree / "package" / "a.py").write_text("b")
    assert of(tree) != before


def test_the_name_counts(tree: Path):
    before = of(tree)
    (tree / "package" / "a.py").rename(tree / "package" / "b.py")
    assert of(tree) != before


def test_the_executable_bit_counts(tree: Path):
    before = of(tree)
    (tree / "package" / "a.py").chmod(0o755)
    assert of(tree) != before


def test_a_parent_counts(tree: Path):
    assert of(tree, "base 1") != of(tree, "base 2")
    assert of(tree, "ab", "c") != of(tree, "a", "bc")


def test_compiled_files_and_other_directories_do_not_count(tree: Path):
    before = of(tree)
    (tree / "package" / "__pycache__").mkdir()
    (tree / "package" / "__pycache__" / "a.pyc").write_text("compiled")
    (tree / "other.txt").write_text("changed")
    assert of(tree) == before


def test_a_missing_source_is_an_error(tree: Path):
    with pytest.raises(FileNotFoundError, match="nowhere is missing"):
        fingerprint.of_sources(tree, ["nowhere"])
