"""The windows of a schedule: when pods are asked for, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from warmpod.api.schedule import ScheduleEntry
from warmpod.controller.demand import cron
from warmpod.controller.demand.cron import InvalidEntry
from warmpod.controller.objects import start_times

#: Seconds before a window in which pods are started, while no start was measured. An engine of 8B
#: parameters took 65 s on an H200; larger ones take minutes.
UNMEASURED_LEAD = 300.0
#: Seconds; a start that took longer was held up by something else than itself.
LONGEST_LEAD = 3600.0


@dataclass(frozen=True)
class Window:
    entry: ScheduleEntry
    begins: datetime
    """When pods are to be warm."""
    lead: timedelta
    """Pods are asked for so much earlier."""
    running_until: datetime | None = None
    """When a window of the entry ends that has begun: this one, or the one before it, which this
    one's lead reaches into. None while none has."""

    @property
    def asks_from(self) -> datetime:
        return self.begins - self.lead

    @property
    def ends(self) -> datetime:
        return self.begins + _duration(self.entry)

    def changes(self, now: datetime) -> Iterator[datetime]:
        """When it begins and ends, as far as that is to come."""
        yield self.ends
        if self.begins > now:
            yield self.begins
        if self.running_until is not None:
            yield self.running_until


@dataclass(frozen=True)
class Found:
    """What a schedule amounts to at one moment."""

    active: tuple[Window, ...] = ()
    coming: Window | None = None
    """The next one of those that are not active."""
    invalid: tuple[str, ...] = ()
    """Which entries are left out, and why: field, what was found, remedy."""
    changes_at: datetime | None = None
    """Until then the same windows are active."""


def find(schedule: tuple[ScheduleEntry, ...], measured: float | None, now: datetime) -> Found:
    """`measured`: seconds that pods take to become warm, the lead of entries without their own."""
    active: list[Window] = []
    coming: list[Window] = []
    invalid: list[str] = []
    for number, entry in enumerate(schedule):
        try:
            window = _newest(entry, measured, now)
            if window is not None:
                active.append(window)
            elif (following := _following(entry, measured, now)) is not None:
                coming.append(following)
            else:
                raise InvalidEntry("cron", f"{entry.cron!r} is on no day of a calendar")
        except InvalidEntry as error:
            field = f"spec.schedule[{number}].{error.field}"
            invalid.append(f"{field} of {entry.name}: {error}: correct it")
    changes = [at for window in active for at in window.changes(now)]
    changes += [window.asks_from for window in coming]
    return Found(
        active=tuple(active),
        coming=min(coming, key=lambda window: window.asks_from, default=None),
        invalid=tuple(invalid),
        changes_at=min(changes, default=None),
    )


def _newest(entry: ScheduleEntry, measured: float | None, now: datetime) -> Window | None:
    """Of windows of one entry that overlap, the one that ends last."""
    lead = _lead(entry, measured)
    begins = cron.last_until(entry.cron, entry.time_zone, now + lead)
    if begins is None:
        return None
    if now >= begins + _duration(entry):
        return None
    begun = cron.last_until(entry.cron, entry.time_zone, now)
    running_until = begun + _duration(entry) if begun is not None else None
    running = running_until is not None and now < running_until
    return Window(entry, begins, lead, running_until if running else None)


def _following(entry: ScheduleEntry, measured: float | None, now: datetime) -> Window | None:
    lead = _lead(entry, measured)
    begins = cron.first_after(entry.cron, entry.time_zone, now + lead)
    return None if begins is None else Window(entry, begins, lead)


def _duration(entry: ScheduleEntry) -> timedelta:
    return timedelta(seconds=entry.duration_seconds)


def _lead(entry: ScheduleEntry, measured: float | None) -> timedelta:
    if entry.lead_seconds is not None:
        return timedelta(seconds=entry.lead_seconds)
    return timedelta(seconds=min(LONGEST_LEAD, UNMEASURED_LEAD if measured is None else measured))


def measured_start(startups: list[dict[str, object]]) -> float | None:
    """Seconds from the creation of a pod until it is warm: the slowest of the last starts, because
    a window that begins with cold pods is what the lead is there to prevent. `startups`: as in
    `status.lastStartups`."""
    return max(start_times.of_pods(startups), default=None)
