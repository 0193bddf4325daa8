"""The process that computes forecasts, and all that may become of it."""

from __future__ import annotations

import re
import sys
from math import pi, sin
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warmpod
from warmpod.controller.forecasting import child
from warmpod.controller.forecasting.process import Failed, Task, compute

TASK = Task([1.0, 2.0, 3.0, 4.0] * 6, 4, 2)


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


async def test_the_real_one_answers_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(warmpod.__file__).parents[1]))
    constant = Task([5.0] * 20, 4, 3)
    broken = Task([1.0, 2.0], 4, 3)
    found = await compute({"a/b": TASK, "a/c": constant, "a/d": broken, "a/e": TASK})
    assert found["a/c"] == [5.0, 5.0, 5.0]
    assert found["a/b"] == pytest.approx([1.0, 2.0], abs=0.2)
    assert found["a/e"] == found["a/b"]
    assert isinstance(found["a/d"], Failed)


ONE_ANSWER = (
    'import sys; sys.stdin.readline(); print(\'{"id": "a", "forecast": [1.0]}\', flush=True)'
)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit(1)", "ended|reset|lost|Broken"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended|reset|lost|Broken"),
        ("print('no JSON', flush=True); input()", "JSONDecodeError"),
        ("print('{}', flush=True); input()", "KeyError|forecast"),
        ("print('x' * 2_000_000, flush=True)", "ValueError|Separator|limit"),
        ("import time; time.sleep(60)", "too long"),
    ],
)
async def test_whatever_it_does_there_is_an_answer(program: str, why: str) -> None:
    found = await compute(
        {"a": TASK, "b": TASK}, command=python(program), start_seconds=2, fit_seconds=0
    )
    assert found.keys() == {"a", "b"}
    for answer in found.values():
        assert isinstance(answer, Failed)
    assert re.search(why, " ".join(str(a) for a in found.values()))


async def test_what_was_answered_before_it_died_counts() -> None:
    found = await compute({"a": TASK, "b": TASK}, command=python(ONE_ANSWER))
    assert found["a"] == [1.0]
    assert isinstance(found["b"], Failed)


async def test_one_that_cannot_be_started() -> None:
    found = await compute({"a": TASK}, command=("/nowhere/python",))
    assert isinstance(found["a"], Failed)


def test_a_cycle_is_found() -> None:
    season = 24
    values = [50 + 40 * sin(2 * pi * step / season) for step in range(season * 5)]
    found = child.forecast(values, season, season)
    expected = [50 + 40 * sin(2 * pi * step / season) for step in range(season)]
    assert found == pytest.approx(expected, abs=2)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 1e9, width=32), min_size=8, max_size=48))
def test_arbitrary_series_give_finite_values_or_an_error(values: list[float]) -> None:
    try:
        found = child.forecast(values, 4, 3)
    except (ValueError, ArithmeticError):
        return  # the process reports it
    assert len(found) == 3
    assert all(0 <= value < float("inf") for value in found)
