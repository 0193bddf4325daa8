"""What the schema says about times: it is what a person is told first."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from cronsim import CronSim
from pydantic import ValidationError

from warmpod.api.forecast import Forecast
from warmpod.api.schedule import ScheduleEntry


def entry(**fields: Any) -> ScheduleEntry:
    whole = {"name": "day", "cron": "0 8 * * *", "durationSeconds": 60, "replicas": 1, **fields}
    return ScheduleEntry.model_validate(whole)


@pytest.mark.parametrize(
    "cron",
    [
        "0 8 * * *",
        "*/5 * * * *",
        "0,30 8-18/2 1,15 JAN-MAR MON-FRI",
        "59 23 31 12 7",
        "07 08 * * 1",
    ],
)
def test_times_of_crontab(cron: str) -> None:
    assert entry(cron=cron).cron == cron
    CronSim(cron, datetime(2030, 1, 1))


@pytest.mark.parametrize(
    "cron",
    [
        "", "0 8 * *", "0 8 * * * *", "60 8 * * *", "0 24 * * *", "0 8 0 * *", "0 8 32 * *",
        "0 8 * 13 *", "0 8 * * 8", "0 8 * * FRYDAY", "@daily", "0 8 * * MON#2", "0 8 L * *",
        "*/0 8 * * *", "0 8 * * *\n", "-1 8 * * *", "a b c d e",
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(cron: str) -> None:
    with pytest.raises(ValidationError, match="cron"):
        entry(cron=cron)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT+5"])
def test_zones(zone: str) -> None:
    assert entry(timeZone=zone).time_zone == zone


@pytest.mark.parametrize("zone", ["", "/etc/passwd", "../UTC", "Europe//Berlin", "UTC ", "+02:00"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValidationError, match="timeZone"):
        entry(timeZone=zone)


def test_forecasts_are_off() -> None:
    assert Forecast().mode == "Off"
