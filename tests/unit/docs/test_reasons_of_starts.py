"""The page about fast starts explains every reason of a miss and of a plain start, and no other.

They are taken from the sources, so that a new one is noticed: texts that are called `why`, and
those that are given to what tells them. Where something is put in, they have `…`, as the page has.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from warmpod.compilecache.factors import Factors, differences, why_missed
from warmpod.launcher.cache.podcache import KEPT_BY_POD
from warmpod.sidecar.timeline import NOT_TAKEN

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "fast-start.md"
LAUNCHER = ROOT / "operator" / "warmpod" / "launcher"
# Which of the arguments is the reason.
TELLERS = {
    "NoForkError": 0,
    "UnfitError": 0,
    "Outcome": 1,
    "_lose": 0,
    "_miss": 0,
    "_set_aside": 0,
}
# Nobody is shown the first, which is not of a store, nor the start of an engine that is ended.
NOT_SHOWN = {KEPT_BY_POD, "the launcher was told to stop"}


def made_in(*names: str) -> set[str]:
    trees = [ast.parse((LAUNCHER / name).read_text()) for name in names]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    constants = {name: text for node in nodes for name, text in assigned(node)}
    found = [reason for node in nodes for reason in reasons(node)]
    named = (constants.get(each.id) if isinstance(each, ast.Name) else each for each in found)
    return {text for each in named if each is not None and (text := text_of(each))} - NOT_SHOWN


def assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, node.value


def reasons(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        teller = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
        yield from node.args[TELLERS.get(teller, len(node.args)) :][:1]
    elif isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        yield from (value for key, value in pairs if getattr(key, "value", "") == "why")
    else:
        yield from (value for name, value in assigned(node) if name == "why")


def text_of(node: ast.expr) -> str:
    """Empty if it is no text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.FormattedValue):
        return "…"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def of_factors() -> set[str]:
    one = Factors(
        image="i",
        model="m",
        gpu=("g",),
        driver="d",
        cpu="c",
        ranks={"tensor-parallel-size": 2},
        arguments={"command": "1", "a": "1"},
        environment={"V": "1"},
    )
    other = Factors(arguments={"command": "2", "a": "2", "b": "1"}, environment={"V": "2"})
    return {*differences(one, other), *differences(other, one), why_missed(one, [])}


def explained(heading: str) -> set[str]:
    """What stands in the first column of the table with this heading."""
    lines = PAGE.read_text().splitlines()
    first = lines.index(heading) + 2
    cells = (line.split("|")[1] for line in lines[first : lines.index("", first)])
    return {reason for cell in cells for reason in re.findall(r"`([^`]+)`", cell)}


def compare(made: Iterable[str], told: Iterable[str]) -> None:
    """What follows a colon may be missing."""
    patterns = {re.escape(each).replace(":\\ …", "…").replace("…", ".*"): each for each in told}
    fitting = {each: [p for p in patterns if re.fullmatch(p, each)] for each in made}
    assert [reason for reason, found in fitting.items() if not found] == []
    used = {pattern for found in fitting.values() for pattern in found}
    assert [patterns[pattern] for pattern in patterns.keys() - used] == []


def test_of_misses() -> None:
    made = made_in("cache/podcache.py", "cache/store.py")
    assert len(made) >= 9
    told = explained("| why it was a miss | what to do |")
    compare({*made, *of_factors(), NOT_TAKEN}, told)


def test_of_plain_starts() -> None:
    made = made_in("starter.py", "forks.py", "invocation/vllm_command.py", "forkserver/__main__.py")
    assert len(made) >= 16
    compare(made, explained("| reason | what to do |"))
