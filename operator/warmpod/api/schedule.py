"""`spec.schedule`: when more pods are kept than the spec asks for otherwise."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from warmpod.api.base import NAME, Form, StrictBase, rule, rules

MAX_ENTRIES = 32

_NAMES_OF_MONTHS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_NAMES_OF_DAYS = "SUN|MON|TUE|WED|THU|FRI|SAT"
_MINUTE = "[0-5]?[0-9]"
_HOUR = "([01]?[0-9]|2[0-3])"
_DAY = "(0?[1-9]|[12][0-9]|3[01])"
_MONTH = f"(0?[1-9]|1[0-2]|{_NAMES_OF_MONTHS})"
_WEEKDAY = f"([0-7]|{_NAMES_OF_DAYS})"


def _field(value: str) -> str:
    item = rf"([*]|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{item}(,{item})*"


_CRON = Form(
    "^" + " +".join(map(_field, (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY))) + "$",
    "schedule.cron is not what crontab(5) has: use five fields, each within its range (minute, "
    "hour, day of month, month, day of week), for example 0 8 * * MON-FRI, and no @daily",
)
"""What crontab(5) has, without its extensions: an API server that knows a bad hour when it sees one
tells the person who types it."""

_ZONE = Form(
    r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$",
    "schedule.timeZone is not a name of the tz database: use for example Europe/Berlin or UTC, "
    "and no offset such as +02:00",
)


class ScheduleEntry(StrictBase):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.replicas) || has(self.standby)",
                "schedule: an entry changes nothing without replicas or standby: set one of them",
                reason="FieldValueRequired",
            )
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=40), NAME] = Field(
        description="Name by which conditions speak of it."
    )
    cron: Annotated[str, Field(max_length=128), _CRON] = Field(
        description="When it begins: minute, hour, day of month, month, day of week, as in "
        "crontab(5); for example 0 8 * * MON-FRI."
    )
    time_zone: Annotated[str, Field(max_length=64), _ZONE] = Field(
        default="UTC", description="Time zone of cron, for example Europe/Berlin."
    )
    duration_seconds: Annotated[int, Field(ge=60, le=7 * 24 * 3600)] = Field(
        description="How long it lasts, in seconds."
    )
    replicas: Annotated[int, Field(ge=0, le=10000)] | None = Field(
        default=None, description="Serving pods that there are at least."
    )
    standby: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None, description="Standby pods that there are at least."
    )
    lead_seconds: Annotated[int, Field(ge=0, le=24 * 3600)] | None = Field(
        default=None,
        description="How long before it begins pods are started. Default: what the slowest of the "
        "last starts took; 300 before one was measured.",
    )
