"""What a node's list of images says, and what it does not."""

from __future__ import annotations

import pytest

from unit.controller.builders import node_view
from warmpod.controller.nodes.images import listed_name, missing, registry_of, removed, with_known

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("written", "listed", "registry"),
    [
        ("nginx", "docker.io/library/nginx:latest", "docker.io"),
        ("team/app:1", "docker.io/team/app:1", "docker.io"),
        (f"example.com/a/b@{DIGEST}", f"example.com/a/b@{DIGEST}", "example.com"),
        (f"example.com/a/b:1@{DIGEST}", f"example.com/a/b@{DIGEST}", "example.com"),
        ("127.0.0.1:5000/a:1", "127.0.0.1:5000/a:1", "127.0.0.1:5000"),
        ("127.0.0.1:5000/a", "127.0.0.1:5000/a:latest", "127.0.0.1:5000"),
    ],
)
def test_names(written: str, listed: str, registry: str) -> None:
    assert listed_name(written) == listed
    assert registry_of(written) == registry


def test_missing() -> None:
    node = node_view("n", "docker.io/library/a:1", f"example.com/b@{DIGEST}")
    assert missing(["a:1", f"example.com/b:2@{DIGEST}", "example.com/b:2"], node) == (
        "example.com/b:2",
    )


def test_removed() -> None:
    before, after = node_view("n", "a:1", "b:1"), node_view("n", "b:1", "c:1")
    assert removed(before, after) == {"a:1"}
    assert removed(before, before) == set()


def test_a_list_that_may_have_been_cut_says_nothing() -> None:
    before = node_view("n", "a:1", "b:1", listed=50)
    assert removed(before, node_view("n", "b:1", listed=50)) == set()
    assert removed(before, node_view("n", "b:1", listed=49)) == {"a:1"}


def test_an_empty_list_is_no_list() -> None:
    before = node_view("n", "a:1")
    assert with_known(before, node_view("n")).images == ("a:1",)
    assert with_known(before, node_view("n", "b:1")).images == ("b:1",)
    assert with_known(before, node_view("n", uid="another")).images == ()
