"""`status.standby`: what is written, and when."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from unit.controller.builders import NOW
from warmpod.api.status import StandbyUse
from warmpod.controller.accounting import report
from warmpod.controller.accounting.rate import Rate
from warmpod.controller.accounting.report import Account
from warmpod.controller.accounting.totals import Totals

SUMS = Totals(12, 1, 2, 840.4, 7200.6, 4320.2, 8.0004)
PRICED = Rate(1, Decimal("2.5"))


def account(totals: Totals = SUMS, rate: Rate = PRICED, *, accruing: bool = True) -> Account:
    return Account(totals, rate, accruing)


def test_all_of_it_is_written() -> None:
    section = report.section(account(), {}, NOW)
    assert section == {
        "warmHits": 12,
        "sleepingHits": 1,
        "coldStarts": 2,
        "secondsSaved": 840,
        "awakeGpuSeconds": 7201,
        "asleepGpuSeconds": 4320,
        "cost": "8.00",
        "summary": "12 warm, 1 asleep, 2 cold; saved 14m; idle 3.2 GPU-h (8.00)",
        "updated": "2030-01-01T12:00:00Z",
    }


@pytest.mark.parametrize(
    ("totals", "rate", "summary"),
    [
        (Totals(), Rate(), "0 warm, 0 asleep, 0 cold"),
        (Totals(cold_starts=3), Rate(), "0 warm, 0 asleep, 3 cold"),
        (Totals(1, seconds_saved=61.0), Rate(), "1 warm, 0 asleep, 0 cold; saved 61s"),
        (Totals(9, seconds_saved=9000.0), Rate(), "9 warm, 0 asleep, 0 cold; saved 2.5h"),
        (
            Totals(awake_gpu_seconds=7200.0),
            Rate(1),
            "0 warm, 0 asleep, 0 cold; idle 2.0 GPU-h",
        ),
    ],
)
def test_the_line_leaves_out_what_there_is_not(totals, rate, summary) -> None:
    section = report.section(account(totals, rate), {}, NOW)
    assert section["summary"] == summary
    assert "cost" not in section


def test_the_api_server_takes_it_whatever_the_sums_are() -> None:
    huge = Totals(10**9, 10**9, 10**9, 1e20, 1e20, 1e20, 1e20)
    for totals in (SUMS, huge):
        found = StandbyUse.model_validate(report.section(account(totals), {}, NOW))
        assert len(found.summary) < 200


def test_what_only_grows_is_written_now_and_then() -> None:
    written = report.section(account(), {}, NOW)
    status = {"standby": written}
    more = account(SUMS + Totals(awake_gpu_seconds=600.0, cost=0.42))
    assert report.section(more, status, NOW + timedelta(minutes=14)) == written
    assert report.due(more, status) == NOW + report.PERIOD
    later = report.section(more, status, NOW + timedelta(minutes=15))
    assert later["awakeGpuSeconds"] == 7801
    assert later["updated"] == "2030-01-01T12:15:00Z"


def test_a_pod_that_was_needed_is_written_at_once() -> None:
    status = {"standby": report.section(account(), {}, NOW)}
    more = account(SUMS + Totals(cold_starts=1))
    assert report.section(more, status, NOW + timedelta(seconds=1))["coldStarts"] == 3


def test_what_does_not_change_is_not_written_again() -> None:
    status = {"standby": report.section(account(), {}, NOW)}
    assert report.section(account(), status, NOW + timedelta(days=1)) == status["standby"]
    assert report.due(account(accruing=False), status) is None
    assert report.due(account(), {}) is None


def test_the_next_operator_goes_on_with_what_it_reads() -> None:
    status = {"standby": report.section(account(), {}, NOW)}
    assert report.read(status) == Totals(12, 1, 2, 840, 7201, 4320, 8.0)


@pytest.mark.parametrize("wrong", [{}, {"standby": None}, {"standby": {"warmHits": "x"}}])
def test_what_makes_no_sense_counts_as_nothing(wrong) -> None:
    assert report.read(wrong) == Totals()


@pytest.mark.parametrize("text", ["", "x", "-1", "1.2.3", "²", None, 5])
def test_a_cost_that_is_no_price_counts_as_nothing(text) -> None:
    assert report.read({"standby": {"cost": text}}).cost == 0
