"""How many pods a WarmModel needs now: serving ones, and warm ones beside them.

The spec asks for a number, and an autoscaler may be who writes it. A schedule and a forecast only
ever add to it: both know of load that has not come yet, and neither knows of load that has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from warmpod import reasons
from warmpod.api import WarmModel
from warmpod.controller.demand import windows
from warmpod.controller.demand.windows import Found, Window
from warmpod.controller.objects.meta import time_text
from warmpod.reasons import Reason


@dataclass(frozen=True)
class Outlook:
    """What a forecast says."""

    pods: int
    """Serving pods that the load which is expected needs."""
    trusted: bool
    """False while it has proven nothing, or was worse than the schedule of late."""
    reason: Reason
    why: str
    until: datetime
    """Later than that it says nothing."""


@dataclass(frozen=True)
class Known:
    """What the spec does not have."""

    start_seconds: float | None = None
    """What pods take to become warm; None while none was measured."""
    outlook: Outlook | None = None


@dataclass(frozen=True)
class Demand:
    serving: int
    """Pods that take traffic."""
    standby: int
    """Warm pods that are held back for the next scale-out."""
    due: int = 0
    """Serving pods that are to be warm by now. The others may be on their way: they are asked for
    ahead of the time from which they are needed."""
    raised: bool = False
    """Whether that is more than the spec's own numbers."""
    reason: Reason = reasons.NOT_AHEAD
    why: str = ""
    changes_at: datetime | None = None
    """Until then it stays the same, as far as the clock goes."""

    @property
    def pods(self) -> int:
        return self.serving + self.standby


def measured(status: Mapping[str, Any]) -> Known:
    """What a WarmModel's status tells."""
    return Known(windows.measured_start(status.get("lastStartups") or []))


def of(model: WarmModel, now: datetime, known: Known | None = None) -> Demand:
    known = known or Known()
    found = windows.find(model.spec.schedule, known.start_seconds, now)
    planned = _planned(model, found)
    outlook = _outlook(known, now)
    serving = max(planned.serving, _expected(model, outlook))
    raised = serving > model.spec.replicas or planned.standby > model.spec.standby.replicas
    by_forecast = serving > planned.serving
    times = [found.changes_at, outlook.until if outlook is not None else None]
    return Demand(
        serving=serving,
        standby=planned.standby,
        due=planned.due,
        raised=raised,
        reason=_reason(model, found, outlook, raised=raised, by_forecast=by_forecast),
        why=". ".join(_words(model, found, outlook)),
        changes_at=min((at for at in times if at is not None), default=None),
    )


def scheduled(model: WarmModel, at: datetime) -> int:
    """Serving pods that spec and schedule ask for at a time, whatever is forecast; of the spec as
    it is now."""
    return _planned(model, windows.find(model.spec.schedule, 0.0, at)).serving


def _planned(model: WarmModel, found: Found) -> Demand:
    spec = model.spec
    begun = [window for window in found.active if window.running_until is not None]
    return Demand(
        serving=max([spec.replicas, *(w.entry.replicas or 0 for w in found.active)]),
        standby=max([spec.standby.replicas, *(w.entry.standby or 0 for w in found.active)]),
        due=max([spec.replicas, *(w.entry.replicas or 0 for w in begun)]),
    )


def _outlook(known: Known, now: datetime) -> Outlook | None:
    """A forecast that is not renewed, because the operator cannot, ends by itself."""
    outlook = known.outlook
    return outlook if outlook is not None and now < outlook.until else None


def _expected(model: WarmModel, outlook: Outlook | None) -> int:
    forecast = model.spec.forecast
    if forecast.mode != "Scale" or outlook is None or not outlook.trusted:
        return 0
    return min(outlook.pods, forecast.max_replicas or 0)


def _reason(
    model: WarmModel, found: Found, outlook: Outlook | None, *, raised: bool, by_forecast: bool
) -> Reason:
    if found.invalid:
        return reasons.INVALID_SCHEDULE
    if by_forecast:
        return reasons.FORECAST_ACTIVE
    if raised:
        return reasons.SCHEDULE_ACTIVE
    if model.spec.forecast.mode != "Off":
        return outlook.reason if outlook is not None else reasons.COLLECTING_LOAD
    return reasons.AS_SPECIFIED if model.spec.schedule else reasons.NOT_AHEAD


def _words(model: WarmModel, found: Found, outlook: Outlook | None) -> Iterator[str]:
    yield from found.invalid
    for window in found.active:
        ends = time_text(window.ends)
        yield f"Schedule {window.entry.name} asks for {_asked(window)} until {ends}"
    if found.coming is not None:
        begins = time_text(found.coming.begins)
        lead = found.coming.lead.total_seconds()
        yield (
            f"Schedule {found.coming.entry.name} begins at {begins} and asks for "
            f"{_asked(found.coming)} from {lead:.0f} s before"
        )
    if model.spec.forecast.mode != "Off":
        yield outlook.why if outlook is not None else reasons.COLLECTING_LOAD.meaning.rstrip(".")
    if not model.spec.schedule and model.spec.forecast.mode == "Off":
        yield "spec.schedule is empty and spec.forecast.mode is Off"


def _asked(window: Window) -> str:
    numbers = {"serving": window.entry.replicas, "standby": window.entry.standby}
    told = [f"{number} {role} pods" for role, number in numbers.items() if number is not None]
    return f"at least {' and '.join(told)}"
