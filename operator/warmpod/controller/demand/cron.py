"""When a cron entry fires, in its time zone.

As Debian's cron, whose rules for the days on which clocks change `cronsim` follows: what is set for
a time that such a day does not have happens right after the gap, what is set for a time that it has
twice happens once, and what recurs every hour or more often goes by the time that really passes.

Where clocks change by half an hour (Australia/Lord_Howe alone), cronsim is not of one mind with
itself in that night: an entry may fire once more or once less.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

#: No clock was ever changed by more.
CLOCK_CHANGE = timedelta(hours=3)
#: Entries times the minutes that matter at a time: now, and now with a lead.
CACHED = 4096


class InvalidEntry(ValueError):
    """An entry that passed the schema and still means nothing."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


def last_until(cron: str, zone: str, at: datetime) -> datetime | None:
    """The last time it fired up to `at`, in UTC; None if not in fifty years. Raises
    InvalidEntry."""
    return _last_until(cron, zone, _minute(at))


def first_after(cron: str, zone: str, at: datetime) -> datetime | None:
    """The first time it fires after `at`, in UTC; None if not in fifty years. Raises
    InvalidEntry."""
    return _first_after(cron, zone, _minute(at))


def _minute(at: datetime) -> datetime:
    """Nothing fires between two minutes, so the answer is the same for all of one."""
    return at.astimezone(UTC).replace(second=0, microsecond=0)


@lru_cache(maxsize=CACHED)
def _last_until(cron: str, zone: str, at: datetime) -> datetime | None:
    place = _zone(zone)
    start = at
    if (at - CLOCK_CHANGE).astimezone(place).utcoffset() != (
        (at + CLOCK_CHANGE).astimezone(place).utcoffset()
    ):
        # An hour that comes twice: the clock may show an earlier time than when it last fired.
        start = at + CLOCK_CHANGE
    # With a fraction of a second the search begins with this very minute.
    begin = start.astimezone(place).replace(microsecond=1)
    for fired in _each(cron, begin, reverse=True):
        if fired <= at:
            return fired
    return None


@lru_cache(maxsize=CACHED)
def _first_after(cron: str, zone: str, at: datetime) -> datetime | None:
    for fires in _each(cron, at.astimezone(_zone(zone)), reverse=False):
        if fires > at:
            return fires
    return None


def _each(cron: str, begin: datetime, *, reverse: bool) -> Iterator[datetime]:
    """Times in UTC, because sums of times of one zone leave out that its clocks change."""
    try:
        found = CronSim(cron, begin, reverse=reverse)
    except CronSimError as error:
        raise InvalidEntry("cron", f"{cron!r} is not a time of crontab(5): {error}") from error
    for fires in found:
        yield fires.astimezone(UTC)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidEntry("timeZone", f"{name!r} is not a time zone of the tz database") from error
