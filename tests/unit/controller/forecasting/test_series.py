"""What is recorded, kept and stored of a model's load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.controller.forecasting.series import SHAPES, Series, Shape, filled

START = datetime(2030, 1, 1, tzinfo=UTC)
SHAPE = Shape(step=300, season=4, kept=12)


def at(step: float) -> datetime:
    return START + timedelta(seconds=step * SHAPE.step)


def series(*values: float | None) -> Series:
    found = Series(SHAPE)
    for step, value in enumerate(values):
        if value is not None:
            found.add(value, at(step))
    return found


def test_a_step_has_its_peak() -> None:
    found = Series(SHAPE)
    for second, load in ((0, 1), (15, 7), (30, 2)):
        found.add(load, START + timedelta(seconds=second))
    assert found.closed(at(1)) == (7,)
    assert found.closed(at(0.9)) == ()


def test_gaps_are_told() -> None:
    assert series(1, None, None, 4).closed(at(6)) == (1, None, None, 4, None, None)


def test_it_is_bounded() -> None:
    found = series(*range(100))
    assert found.closed(at(100)) == tuple(range(88, 100))
    found.add(5, at(100_000))  # back after a year
    assert len(found.closed(at(100_001))) == SHAPE.kept


def test_a_clock_that_goes_back_changes_nothing() -> None:
    found = series(1, 2)
    found.add(9, at(0))
    assert found.closed(at(2)) == (1, 2)


def test_stored_and_loaded_under_what_was_recorded_since() -> None:
    later = Series(SHAPE)
    later.add(9, at(4))
    later.load(series(1, 2, None, 3).dump())
    assert later.closed(at(5)) == (1, 2, None, 3, 9)


@pytest.mark.parametrize("text", ["", "no base64!", "aGVsbG8=", "eJyrBgAAfwB9"])
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Series(SHAPE).load(text)


@pytest.mark.parametrize("season", SHAPES)
def test_a_stored_series_is_far_below_what_a_config_map_holds(season: str) -> None:
    shape = SHAPES[season]
    found = Series(shape)
    for step in range(shape.kept):
        found.add((step * 7919) % 1000, START + timedelta(seconds=step * shape.step))
    assert len(found.dump()) < 20_000


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), max_size=40))
def test_filling_leaves_what_is_known(values: list[float | None]) -> None:
    found = filled(values, 4)
    if all(value is None for value in values):
        assert found is None
        return
    assert found is not None
    assert len(found) == len(values)
    assert all(f == v for f, v in zip(found, values, strict=True) if v is not None)


def test_gaps_are_filled_with_the_season_before() -> None:
    assert filled([1, 2, 3, 4, None, 6, None, None, None], 4) == [1, 2, 3, 4, 1, 6, 3, 4, 1]
    assert filled([None, 2, None], 4) == [2, 2, 2]
