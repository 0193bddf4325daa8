"""Which changes of the status are worth an event: those that a person would want to have been told.

A condition that turned true, or a new reason why one is not. Not every step of progress: that can
be read from the conditions at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from warmpod import reasons
from warmpod.controller.status import conditions
from warmpod.controller.telling.condition import STANDBY_READY
from warmpod.controller.telling.transition import Transition
from warmpod.reasons import Reason

_TOLD = (
    conditions.READY,
    conditions.PREFETCHED,
    conditions.WEIGHTS_RESIDENT,
    conditions.WARM,
    STANDBY_READY,
    conditions.SCALED_AHEAD,
)
#: Reasons of Reconciling that are told as well: they say what a rollout costs.
_ROLLOUT: frozenset[Reason] = frozenset(
    {reasons.ROLLOUT_ONE_BY_ONE, reasons.ROLLOUT_WAITS_FOR_ROOM}
)
#: Reasons of a condition that is not true (yet) while all goes well.
_PROGRESS: frozenset[Reason] = frozenset(
    {
        reasons.RESOLVING_IMAGES,
        reasons.CREATING,
        reasons.PREFETCHING,
        reasons.WAITING_FOR_TURN,
        reasons.STAGING,
        reasons.VERIFYING,
        reasons.LOADING,
        reasons.WAITING_FOR_WEIGHTS,
        reasons.WAITING_FOR_PODS,
        reasons.WAITING_FOR_WARM_PODS,
        reasons.WAITING_FOR_ENDPOINTS,
        reasons.STANDBY_REFILLING,
        reasons.WAITING_FOR_DELETION,
        reasons.SIDECAR_STARTING,
        reasons.ENGINE_STARTING,
        reasons.WARMING_UP,
        reasons.STOPPING,
        reasons.NOT_AHEAD,
        reasons.AS_SPECIFIED,
        reasons.FORECAST_LOW,
        reasons.FORECAST_OBSERVED,
        reasons.COLLECTING_LOAD,
    }
)
#: True from the beginning, because nothing was asked for.
_NO_NEWS = frozenset({reasons.NO_STANDBY_REQUESTED})
#: No good news although the condition is true.
_BAD: frozenset[Reason] = frozenset({reasons.OPENED_UNPROVEN, reasons.ROLLOUT_REJECTED})


def transitions(previous: dict[str, Any], new: dict[str, Any]) -> tuple[Transition, ...]:
    """Sorted as the conditions are, and each reason once however many conditions share it."""
    found: dict[str, Transition] = {}
    for transition in _each(previous, new):
        found.setdefault(transition.reason, transition)
    return tuple(found.values())


def _each(previous: dict[str, Any], new: dict[str, Any]) -> Iterator[Transition]:
    before = {c.get("type"): c for c in previous.get("conditions") or []}
    for condition in new["conditions"]:
        old = before.get(condition["type"], {})
        same = (old.get("status"), old.get("reason")) == (condition["status"], condition["reason"])
        if same or not _is_told(condition):
            continue
        good = condition["status"] == "True" and condition["reason"] not in _BAD
        kind: Literal["Normal", "Warning"] = "Normal" if good else "Warning"
        if condition["status"] == "True" or condition["reason"] not in _PROGRESS:
            yield Transition(kind, condition["reason"], condition["message"])


def _is_told(condition: dict[str, Any]) -> bool:
    """A rejection is told by Stalled alone: it says so at once and until a person acts. Warm says
    so later, when the rejected pod is gone."""
    if condition["reason"] == reasons.ROLLOUT_REJECTED:
        return bool(condition["type"] == conditions.STALLED)
    told = condition["type"] in _TOLD or condition["reason"] in _ROLLOUT
    return told and condition["reason"] not in _NO_NEWS
