"""The condition StandbyReady: whether the next scale-out finds what it needs."""

from __future__ import annotations

from datetime import datetime, timedelta

from warmpod import reasons
from warmpod.controller.diagnosis.problems import NOTICES, Area
from warmpod.controller.facts import Facts
from warmpod.controller.telling.condition import Condition, short


def of(facts: Facts) -> Condition:
    pool, asked = facts.pool, facts.pool.demand.standby
    if not asked:
        none = reasons.NO_STANDBY_REQUESTED
        return Condition("True", none, none.meaning)
    count = f"{min(pool.filled, asked)} of {asked} standby pods are ready"
    if pool.filled >= asked:
        return Condition("True", reasons.STANDBY_FILLED, count)
    if not facts.begun:
        return Condition("Unknown", reasons.CREATING, reasons.CREATING.meaning)
    known = _worst(facts)
    due = unfilled_at(facts)
    if due is None or facts.now < due:
        on_the_way = f"{count}. {known or reasons.STANDBY_REFILLING.meaning}"
        return Condition("False", reasons.STANDBY_REFILLING, short(on_the_way))
    limit = f"for more than {facts.max_unfilled_seconds} s (spec.standby.maxUnfilledSeconds)"
    why = known or reasons.STANDBY_UNFILLED.remedy
    return Condition("False", reasons.STANDBY_UNFILLED, short(f"{count}, {limit}. {why}"))


def unfilled_at(facts: Facts) -> datetime | None:
    """When missing standby pods become a problem."""
    if facts.max_unfilled_seconds is None or facts.pool.filled >= facts.pool.demand.standby:
        return None
    return facts.unfilled_since + timedelta(seconds=facts.max_unfilled_seconds)


def _worst(facts: Facts) -> str:
    """What is known to keep pods from becoming warm; empty for nothing."""
    for problem in facts.problems:
        if problem.area in (Area.SPEC, Area.ENGINE) and problem.reason not in NOTICES:
            return problem.message
    return ""
