"""What a forecast amounts to: how many pods, whether it is followed, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from warmpod import reasons
from warmpod.api.forecast import MAX_LOAD, Forecast
from warmpod.api.scalars import MAX_COUNT
from warmpod.controller.demand import Outlook
from warmpod.controller.demand.windows import LONGEST_LEAD, UNMEASURED_LEAD
from warmpod.controller.forecasting.scores import FEWEST, Errors, pods_for
from warmpod.controller.forecasting.series import Shape
from warmpod.controller.objects.meta import time_text

#: Share of the last two seasons that must have been recorded.
FULL_ENOUGH = 0.5


@dataclass(frozen=True)
class Judgement:
    outlook: Outlook
    status: dict[str, object]


def steps_ahead(shape: Shape, start_seconds: float | None) -> int:
    """How many steps a forecast must cover, the present one included: pods that start at the end
    of this step are warm only so much later."""
    seconds = min(LONGEST_LEAD, UNMEASURED_LEAD if start_seconds is None else start_seconds)
    return ceil(seconds / shape.step) + 1


def missing_steps(values: Sequence[float | None], shape: Shape) -> int:
    """How many steps must still be recorded before a fit says anything; 0 when there are enough."""
    wanted = 2 * shape.season
    if len(values) < wanted:
        return wanted - len(values)
    known = sum(value is not None for value in values[-wanted:])
    return max(0, ceil(wanted * FULL_ENOUGH) - known)


def collecting(missing: int, load: float | None, shape: Shape, now: datetime) -> Judgement:
    hours = missing * shape.step / 3600
    why = f"Load is being recorded; {hours:.0f} more hours are needed before it can be forecast"
    outlook = Outlook(0, False, reasons.COLLECTING_LOAD, why, _until(shape, now))
    return Judgement(outlook, _status(now, load))


def failed(why: str, load: float | None, shape: Shape, now: datetime) -> Judgement:
    told = f"Load could not be forecast, so spec and schedule decide alone: {why}"
    outlook = Outlook(0, False, reasons.FORECAST_FAILED, told, _until(shape, now))
    return Judgement(outlook, _status(now, load))


def remembered(told: Mapping[str, Any], shape: Shape) -> Outlook | None:
    """What `status.forecast` says, so that pods do not go for the moment that an operator needs
    from its start to its first forecast. None where it was not followed."""
    if not told.get("followed"):
        return None
    made = datetime.fromisoformat(told["time"])
    pods = int(told.get("pods") or 0)
    why = f"at {told['time']} load for {pods} pods was expected; the next forecast is being made"
    return Outlook(pods, True, reasons.FORECAST_LOW, why, _until(shape, made))


def judge(
    spec: Forecast,
    expected: float,
    load: float | None,
    errors: Errors,
    shape: Shape,
    ahead: int,
    now: datetime,
) -> Judgement:
    """`expected`: the most load in the next `ahead` steps."""
    pods = pods_for(expected, spec.requests_per_pod or 1)
    minutes = ahead * shape.step / 60
    why = (
        f"{expected:.0f} requests at a time are expected within {minutes:.0f} minutes, for {pods} "
        f"pods ({spec.requests_per_pod} requests a pod); {_proof(errors)}"
    )
    reason = _reason(spec, errors)
    followed = errors.good_enough
    outlook = Outlook(pods, followed, reason, why, _until(shape, now))
    status = _status(now, load) | {
        "expectedLoad": min(MAX_LOAD, round(expected)),
        "pods": min(MAX_COUNT, pods),
        "followed": followed and spec.mode == "Scale",
        "samples": errors.samples,
    }
    if errors.samples:
        status |= {"errorPods": f"{errors.forecast:.2f}"}
        status |= {"scheduleErrorPods": f"{errors.scheduled:.2f}"}
    if errors.naive is not None:
        status |= {"naiveErrorPods": f"{errors.naive:.2f}"}
    return Judgement(outlook, status)


def _reason(spec: Forecast, errors: Errors) -> reasons.Reason:
    if spec.mode == "Observe":
        return reasons.FORECAST_OBSERVED
    if errors.samples < FEWEST:
        return reasons.COLLECTING_LOAD
    return reasons.FORECAST_LOW if errors.good_enough else reasons.FORECAST_WORSE


def _proof(errors: Errors) -> str:
    if errors.samples < FEWEST:
        return f"{errors.samples} of {FEWEST} forecasts were compared with what came"
    return (
        f"the last {errors.samples} forecasts were wrong by {errors.forecast:.2f} pods on average, "
        f"spec and schedule by {errors.scheduled:.2f}"
    )


def _status(now: datetime, load: float | None) -> dict[str, object]:
    found: dict[str, object] = {"time": time_text(now)}
    return found | ({} if load is None else {"load": min(MAX_LOAD, round(load))})


def _until(shape: Shape, now: datetime) -> datetime:
    """One missed renewal is forgiven."""
    return now + timedelta(seconds=2 * shape.step)
