"""First come, first served, so many at a time from one registry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from warmpod.controller.nodes.turns import Pull, next_ones

START = datetime(2030, 1, 1, tzinfo=UTC)


def pull(pod: str, *registries: str, second: int = 0) -> Pull:
    return Pull(pod, pod, START + timedelta(seconds=second), frozenset(registries))


def fits(_: Pull) -> bool:
    return True


@pytest.mark.parametrize(
    ("waiting", "pulling", "turn"),
    [
        ([], [], ""),
        ([pull("a", "r"), pull("b", "r")], [], "ab"),
        # The oldest first, and pods of the same second by name.
        ([pull("a", "r", second=9), pull("b", "r"), pull("c", "r")], [], "bc"),
        ([pull("c", "r"), pull("b", "r"), pull("a", "r")], [], "ab"),
        ([pull("a", "r"), pull("b", "r")], [pull("x", "r")], "a"),
        ([pull("a", "r")], [pull("x", "r"), pull("y", "r")], ""),
        ([pull("a", "r")], [pull("x", "r"), pull("y", "r"), pull("z", "r")], ""),
        # Each registry has its own places.
        ([pull("a", "r"), pull("b", "s")], [pull("x", "r"), pull("y", "r")], "b"),
        # Nothing to pull, nothing to wait for.
        ([pull("a", "r"), pull("b")], [pull("x", "r"), pull("y", "r")], "b"),
        # One that needs two keeps its place at the one that is free.
        (
            [pull("a", "r", "s"), pull("b", "s", second=1), pull("c", "s", second=2)],
            [pull("x", "r"), pull("y", "r")],
            "b",
        ),
    ],
)
def test_turns_of_two(waiting: list[Pull], pulling: list[Pull], turn: str) -> None:
    assert next_ones(waiting, pulling, 2, fits) == set(turn)


def test_one_that_does_not_fit_keeps_no_place() -> None:
    waiting = [pull("a", "r"), pull("b", "r"), pull("c", "r")]
    assert next_ones(waiting, [], 1, lambda p: p.pod != "a") == {"b"}


def test_one_of_which_that_is_not_known_yet_keeps_its_place() -> None:
    waiting = [pull("a", "r"), pull("b", "r"), pull("c", "r")]
    assert next_ones(waiting, [], 2, lambda p: None if p.pod == "a" else True) == {"b"}


def test_only_those_that_could_go_are_asked_about() -> None:
    asked: list[str] = []

    def ask(found: Pull) -> bool:
        asked.append(found.pod)
        return True

    next_ones([pull(name, "r") for name in "abcdef"], [], 2, ask)
    assert asked == ["a", "b"]
