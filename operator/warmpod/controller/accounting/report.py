"""`status.standby`: the sums, kept in the status so that the next operator goes on with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from warmpod.api.status import MAX_COUNT, MAX_SUM
from warmpod.controller.accounting.rate import Rate
from warmpod.controller.accounting.totals import Totals
from warmpod.controller.objects.meta import parse_time, time_text

Object = dict[str, Any]

#: GPU seconds grow all the time; a status that did so would be written all the time.
PERIOD = timedelta(minutes=15)


@dataclass(frozen=True)
class Account:
    totals: Totals
    """Since the WarmModel was made."""
    rate: Rate
    accruing: bool
    """Whether pods wait that cost something."""


def section(account: Account, previous: Object, now: datetime) -> Object:
    """`previous`: the status as it is."""
    old = previous.get("standby") or {}
    new = _written(account, now)
    counted = all(old.get(name) == new[name] for name in _COUNTS)
    due = _due(old)
    if counted and due is not None and (now < due or old.get("summary") == new["summary"]):
        return dict(old)
    return new


def due(account: Account, previous: Object) -> datetime | None:
    """When the status is to be written again although nothing has happened."""
    return _due(previous.get("standby") or {}) if account.accruing else None


def read(status: Object) -> Totals:
    """What a status tells; what makes no sense counts as nothing."""
    found = status.get("standby") or {}
    return Totals(
        warm_hits=_whole(found.get("warmHits")),
        sleeping_hits=_whole(found.get("sleepingHits")),
        cold_starts=_whole(found.get("coldStarts")),
        seconds_saved=_whole(found.get("secondsSaved")),
        awake_gpu_seconds=_whole(found.get("awakeGpuSeconds")),
        asleep_gpu_seconds=_whole(found.get("asleepGpuSeconds")),
        cost=_decimal(found.get("cost")),
    )


_COUNTS = ("warmHits", "sleepingHits", "coldStarts")


def _written(account: Account, now: datetime) -> Object:
    totals = account.totals
    written: Object = {
        "warmHits": min(totals.warm_hits, MAX_COUNT),
        "sleepingHits": min(totals.sleeping_hits, MAX_COUNT),
        "coldStarts": min(totals.cold_starts, MAX_COUNT),
        "secondsSaved": _bounded(totals.seconds_saved),
        "awakeGpuSeconds": _bounded(totals.awake_gpu_seconds),
        "asleepGpuSeconds": _bounded(totals.asleep_gpu_seconds),
        "summary": _summary(account),
        "updated": time_text(now.astimezone(UTC)),
    }
    if _is_priced(account):
        written["cost"] = f"{totals.cost:.2f}"
    return written


def _is_priced(account: Account) -> bool:
    return account.rate.per_gpu_hour is not None or account.totals.cost > 0


def _summary(account: Account) -> str:
    """`12 warm, 1 asleep, 2 cold; saved 14m; idle 3.2 GPU-h (6.40)`"""
    totals = account.totals
    parts = [
        f"{totals.warm_hits} warm, {totals.sleeping_hits} asleep, {totals.cold_starts} cold",
        *([f"saved {_duration(totals.seconds_saved)}"] if totals.seconds_saved else []),
        *([_idle(account)] if totals.gpu_seconds >= 1 else []),
    ]
    return "; ".join(parts)


def _idle(account: Account) -> str:
    hours = f"idle {account.totals.gpu_seconds / 3600:.1f} GPU-h"
    return f"{hours} ({account.totals.cost:.2f})" if _is_priced(account) else hours


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 7200 else f"{seconds / 3600:.1f}h"


def _due(section: Object) -> datetime | None:
    """None where nothing was written yet."""
    updated = parse_time(section.get("updated"))
    return updated + PERIOD if updated is not None else None


def _bounded(value: float) -> int:
    return min(round(value), MAX_SUM)


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _decimal(value: object) -> float:
    text = value if isinstance(value, str) else ""
    plain = text.isascii() and text.replace(".", "", 1).isdigit()
    return float(text) if plain else 0.0
