"""The parts of the operator know those below them, and nobody above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import warmpod.controller

ROOT = Path(warmpod.controller.__file__).parent
PACKAGE = warmpod.controller.__name__
#: From the bottom up; parts of one layer do not know each other.
LAYERS = (
    ("apiserver", "settings"),
    ("objects", "runtime"),
    ("clients", "demand", "diagnosis", "telling"),
    ("accounting", "edits", "forecasting", "nodes", "triggers"),
    ("observed",),
    ("prefetch", "rollouts"),
    ("pool",),
    ("facts",),
    ("status",),
    ("apply", "observe", "plan"),
    ("reconcile",),
    ("main",),
)
LAYER = {part: number for number, layer in enumerate(LAYERS) for part in layer}
PARTS = sorted(
    [path.stem for path in ROOT.glob("*.py") if path.stem != "__init__"]
    + [path.parent.name for path in ROOT.glob("*/__init__.py")]
)


def sources(part: str) -> Iterator[Path]:
    directory = ROOT / part
    return directory.rglob("*.py") if directory.is_dir() else iter([ROOT / f"{part}.py"])


def imported(path: Path) -> Iterator[str]:
    """The modules of the operator that a file imports, by their full names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith(f"{PACKAGE}."))


def test_each_part_has_a_layer() -> None:
    assert sorted(LAYER) == PARTS


@pytest.mark.parametrize("part", PARTS)
def test_a_part_knows_only_what_is_below_it(part: str) -> None:
    known = {
        name.removeprefix(f"{PACKAGE}.").partition(".")[0]
        for path in sources(part)
        for name in imported(path)
    } - {part}
    assert [other for other in sorted(known) if LAYER[other] >= LAYER[part]] == []
