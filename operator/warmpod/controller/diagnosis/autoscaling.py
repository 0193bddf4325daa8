"""Whether an autoscaler is faster than the pods that it asks for, and what to set if it is.

Until a new pod is warm, an autoscaler sees the load that made it ask for that pod, or more of it:
what waits goes on growing. If it may take another step in that time, it asks for pods again for
load that the first ones are about to take.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from warmpod import reasons
from warmpod.controller.diagnosis.problems import Area, Problem
from warmpod.controller.objects import start_times
from warmpod.controller.objects.autoscaler_view import AutoscalerView, Policy, Speed

#: Seconds between two decisions of an autoscaler, by default.
SYNC_PERIOD = 15
#: The API's bounds, in seconds.
MAX_PERIOD = 1800
MAX_WINDOW = 3600


def problems(
    autoscalers: Iterable[AutoscalerView], startups: Iterable[Mapping[str, Any]], standby: int
) -> Iterator[Problem]:
    """`startups`: of the status. `standby`: pods that are warm before they are asked for."""
    start = start_seconds(startups)
    for autoscaler in autoscalers:
        if autoscaler.scales_deployment:
            reason = reasons.AUTOSCALER_SCALES_DEPLOYMENT
            words = f"{_name(autoscaler)}: {reason.meaning} {reason.remedy}"
            yield Problem(reason, words, Area.ENGINE)
        elif start is not None and (too_fast := advice(autoscaler, start, standby)):
            yield Problem(reasons.AUTOSCALER_TOO_FAST, too_fast, Area.ENGINE)


def start_seconds(startups: Iterable[Mapping[str, Any]]) -> int | None:
    """What a new pod takes to be warm, by the slowest that the status remembers, and rounded up: an
    advice that differs by seconds after each start is none. None before the first."""
    seconds = max(start_times.of_pods(startups), default=None)
    return None if seconds is None else rounded(seconds)


def rounded(seconds: float) -> int:
    """Up to what is as good as that: an autoscaler decides each 15 s."""
    step = SYNC_PERIOD if seconds <= 120 else 60
    return max(SYNC_PERIOD, math.ceil(seconds / step) * step)


def advice(autoscaler: AutoscalerView, start: int, standby: int) -> str | None:
    """What to change, with the numbers; None where nothing is wrong. `start`: seconds."""
    found = []
    if not autoscaler.only_cpu and _overtakes(autoscaler, start, standby):
        found.append(_slower_up(autoscaler.up, start))
    # With a pool the first pod is back at once.
    if not standby and autoscaler.down.select != "Disabled" and autoscaler.down.window < start:
        found.append(
            f"it lets pods go after {autoscaler.down.window} s of less load, in less time than a "
            f"new one takes: set scaleDown.stabilizationWindowSeconds to {min(start, MAX_WINDOW)} "
            "or more"
        )
    if not found:
        return None
    where = " (in spec.advanced.horizontalPodAutoscalerConfig.behavior)"
    place = where if autoscaler.scaled_object else " (in spec.behavior)"
    return f"{_name(autoscaler)}: pods take {start} s to be warm; {'; '.join(found)}{place}"


def _overtakes(autoscaler: AutoscalerView, start: int, standby: int) -> bool:
    """Whether it may take another step before the pods of the first one are warm."""
    up, least = autoscaler.up, max(1, autoscaler.minimum)
    if up.select == "Disabled" or up.window >= start:
        return False
    steps = growth(up, least, start, autoscaler.maximum)
    first = next(steps)
    return any(reached > first and reached - least > standby for reached in steps)


def growth(up: Speed, replicas: int, seconds: int, maximum: int) -> Iterator[int]:
    """The most replicas after each decision of an autoscaler in that time, until it can ask for no
    more.

    As `calculateScaleUpLimitWithScalingRules` in pkg/controller/podautoscaler/horizontal.go: each
    policy counts from what there was at the beginning of its own period.
    """
    added: deque[tuple[int, int]] = deque()
    for now in range(0, seconds, SYNC_PERIOD):
        while added and now - added[0][0] >= MAX_PERIOD:
            added.popleft()
        limits = [
            _limit(policy, replicas - sum(n for at, n in added if now - at < policy.period))
            for policy in up.policies
        ]
        allowed = min(limits) if up.select == "Min" else max(limits)
        step = max(0, min(allowed, maximum) - replicas)
        added.append((now, step))
        replicas += step
        yield replicas
        if replicas >= maximum:
            return


def _limit(policy: Policy, before: int) -> int:
    if policy.percent:
        return math.ceil(before * (1 + policy.value / 100))
    return before + policy.value


def _slower_up(up: Speed, start: int) -> str:
    quickest = min(policy.period for policy in up.policies)
    if start <= MAX_PERIOD:
        remedy = f"periodSeconds of every policy in scaleUp to {start} or more"
    else:
        remedy = f"scaleUp.stabilizationWindowSeconds to {min(start, MAX_WINDOW)} or more"
    return (
        f"it may add pods every {max(quickest, SYNC_PERIOD)} s, so those that warm up have it ask "
        f"for more than the load does: set {remedy}"
    )


def _name(autoscaler: AutoscalerView) -> str:
    if autoscaler.scaled_object:
        return f"ScaledObject {autoscaler.scaled_object}"
    return f"HorizontalPodAutoscaler {autoscaler.meta.name}"
