from __future__ import annotations

import json
from typing import Any

import pytest

from warmpod.cli.cache.entries import CacheError, Stored, read_listing, resolve, to_push


def stored(key: str, node: str = "n1", created: float = 0.0, state: str = "published") -> Stored:
    return Stored(node, key, state, 10, 2, created, created)


def listed(**changed: Any) -> bytes:
    row = {"key": "aa", "state": "published", "bytes": 10, "files": 2, "created": 5, "used": 6.5}
    return json.dumps({"entries": [row | changed]}).encode()


def test_a_listing() -> None:
    (entry,) = read_listing("n1", listed(why="", factors={"gpu": ["H200"]}))
    assert entry == Stored("n1", "aa", "published", 10, 2, 5, 6.5, "", {"gpu": ["H200"]})


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"entries": [{}]}', listed(bytes="x"), listed(factors=3)]
)
def test_what_is_no_listing(text: bytes) -> None:
    with pytest.raises(CacheError, match="the agent on node n1 answers what"):
        read_listing("n1", text)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [([], {"aab", "abc", "b"}), (["aa"], {"aab"}), (["aab", "b"], {"aab", "b"})],
)
def test_keys_by_their_beginnings(wanted: list[str], found: set[str]) -> None:
    assert resolve(wanted, map(stored, ["aab", "abc", "b", "b"])) == found


@pytest.mark.parametrize(
    ("wanted", "says"),
    [("c", "no entry has a key that begins with c"), ("a", r"2 entries .* \(aab or abc\)")],
)
def test_keys_that_fit_none_or_many(wanted: str, says: str) -> None:
    with pytest.raises(CacheError, match=says):
        resolve([wanted], map(stored, ["aab", "abc"]))


def test_of_what_two_nodes_have_compiled_the_older_is_pushed() -> None:
    found = [
        stored("b", "n1", created=3),
        stored("a", "n3", created=2),
        stored("a", "n2", created=1),
        stored("a", "n1", created=1, state="set-aside"),
        stored("b", "n0", created=3),
    ]
    chosen = [(entry.key, entry.node) for entry in to_push(found, [])]
    assert chosen == [("a", "n2"), ("b", "n0")]
    assert [entry.key for entry in to_push(found, ["b"])] == ["b"]


def test_nothing_is_published() -> None:
    with pytest.raises(CacheError, match="no entry is published yet"):
        to_push([stored("a", state="set-aside")], [])
