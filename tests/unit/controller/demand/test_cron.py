"""When entries fire, above all on days on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from warmpod.controller.demand import cron
from warmpod.controller.demand.cron import InvalidEntry


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


BERLIN = "Europe/Berlin"  # changes on 31 March 2030 at 01:00Z and on 27 October 2030 at 01:00Z


@pytest.mark.parametrize(
    ("entry", "zone", "now", "last", "following"),
    [
        ("0 8 * * *", "UTC", "2030-01-02T08:00", "2030-01-02T08:00", "2030-01-03T08:00"),
        ("0 8 * * *", "UTC", "2030-01-02T07:59", "2030-01-01T08:00", "2030-01-02T08:00"),
        ("0 8 * * MON-FRI", BERLIN, "2030-01-05T12:00", "2030-01-04T07:00", "2030-01-07T07:00"),
        ("0 8 * * *", BERLIN, "2030-07-01T12:00", "2030-07-01T06:00", "2030-07-02T06:00"),
        # 02:30 does not exist: right after the gap.
        ("30 2 * * *", BERLIN, "2030-03-31T00:59", "2030-03-30T01:30", "2030-03-31T01:00"),
        ("30 2 * * *", BERLIN, "2030-03-31T01:00", "2030-03-31T01:00", "2030-04-01T00:30"),
        # 02:45 comes twice: once; the clock shows 02:30 again when it was 02:45 already.
        ("45 2 * * *", BERLIN, "2030-10-27T00:45", "2030-10-27T00:45", "2030-10-28T01:45"),
        ("45 2 * * *", BERLIN, "2030-10-27T01:30", "2030-10-27T00:45", "2030-10-28T01:45"),
        ("0 0 29 2 *", "UTC", "2030-01-01T00:00", "2028-02-29T00:00", "2032-02-29T00:00"),
    ],
)
def test_before_and_after(entry: str, zone: str, now: str, last: str, following: str) -> None:
    assert cron.last_until(entry, zone, at(now)) == at(last)
    assert cron.first_after(entry, zone, at(now)) == at(following)


def test_within_a_minute_it_is_all_the_same() -> None:
    now = at("2030-01-02T08:00") + timedelta(seconds=59, microseconds=1)
    assert cron.last_until("0 8 * * *", "UTC", now) == at("2030-01-02T08:00")


@pytest.mark.parametrize(
    ("entry", "zone", "field"),
    [
        ("0 8 * * *", "Mars/Olympus_Mons", "timeZone"),
        ("0 8 * * *", "America", "timeZone"),
        ("0 17-8 * * *", "UTC", "cron"),
        ("0 0 30 2 *", "UTC", "cron"),
    ],
)
def test_what_means_nothing_names_its_field(entry: str, zone: str, field: str) -> None:
    for look in (cron.last_until, cron.first_after):
        with pytest.raises(InvalidEntry) as found:
            look(entry, zone, at("2030-01-01T00:00"))
        assert found.value.field == field


entries = st.sampled_from(
    [
        "*/7 * * * *", "5 * * * *", "30 1 * * *", "30 2 * * *", "59 2 * * *", "0 3 * * *",
        "15 */2 * * *", "0 0 * * SUN", "45 1-3 * * *", "0 12 1 * *",
    ]
)  # fmt: skip
zones = st.sampled_from(
    ["UTC", BERLIN, "America/New_York", "Australia/Sydney", "Asia/Kathmandu", "Africa/Cairo"]
)
near_changes = st.sampled_from(
    ["2030-03-10T07:00", "2030-03-31T01:00", "2030-04-06T15:00", "2030-10-05T15:30",
     "2030-10-27T01:00", "2030-11-03T06:00", "2030-04-25T22:00", "2030-10-31T21:00"]
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(entries, zones, near_changes, st.integers(-600, 600))
def test_looking_back_finds_what_looking_forward_does(
    entry: str, zone: str, change: str, minutes: int
) -> None:
    now = at(change) + timedelta(minutes=minutes)
    begin = now - timedelta(days=40)
    fired = []
    for found in CronSim(entry, begin.astimezone(ZoneInfo(zone))):
        if found.astimezone(UTC) > now:
            break
        fired.append(found.astimezone(UTC))
    assert cron.last_until(entry, zone, now) == max(fired)


@settings(deadline=None, max_examples=40)
@given(entries, zones, near_changes, st.integers(-600, 600))
def test_nothing_fires_between_last_and_next(
    entry: str, zone: str, change: str, minutes: int
) -> None:
    now = at(change) + timedelta(minutes=minutes)
    last = cron.last_until(entry, zone, now)
    following = cron.first_after(entry, zone, now)
    assert last is not None
    assert following is not None
    assert last <= now < following
    assert cron.first_after(entry, zone, last) == following
    assert cron.last_until(entry, zone, following - timedelta(minutes=1)) == last
