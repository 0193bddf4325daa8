"""The few numbers that are made of many requests."""

from __future__ import annotations

import pytest

from warmpod.load.summary import Sample, Window, percentile, summarise

WINDOW = Window(10, 20)


def test_rates_count_what_ended_and_latencies_what_was_sent_in_the_window() -> None:
    before = Sample(started=5, ended=12, first_token=4, tokens=70)
    inside = Sample(started=11, ended=14, first_token=1, tokens=21)
    after = Sample(started=19, ended=25, first_token=2, tokens=41)
    late = Sample(started=20, ended=26, first_token=9, tokens=99)
    found = summarise([before, inside, after, late], WINDOW)
    assert found.tokens_per_second == pytest.approx((70 + 21) / 10)
    assert found.requests_per_second == pytest.approx(2 / 10)
    assert found.requests == 2
    assert (found.ttft_p50_ms, found.ttft_p99_ms) == (1000, 2000)
    assert (found.tpot_p50_ms, found.tpot_p99_ms) == (100, 100)


def test_failures_count_wherever_they_are_and_are_no_latency() -> None:
    samples = [
        Sample(1, 2, error="500"),
        Sample(12, 13, error="503"),
        Sample(12, 13, first_token=0.5, tokens=1),
    ]
    found = summarise(samples, WINDOW)
    assert (found.requests, found.failed, found.error) == (1, 2, "500")
    assert found.ttft_p99_ms == 500
    assert found.tpot_p50_ms is None  # one token has no next one


def test_nothing_is_no_number() -> None:
    found = summarise([], WINDOW)
    assert (found.requests, found.tokens_per_second, found.ttft_p50_ms) == (0, 0, None)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([], 50, None),
        ([7], 99, 7),
        ([3, 1, 2], 50, 2),
        ([1, 2, 3, 4], 50, 2),
        (list(range(1, 101)), 99, 99),
        (list(range(1, 102)), 99, 100),
    ],
)
def test_percentiles_are_values_that_were_measured(
    values: list[float], percent: int, expected: float | None
) -> None:
    assert percentile(values, percent) == expected
