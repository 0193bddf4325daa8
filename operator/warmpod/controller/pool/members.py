"""What the pool sees in one engine pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from warmpod.controller.objects.engine_pods import is_serving, is_warm, sleeps
from warmpod.controller.objects.views import PodView, parse_time
from warmpod.protocol import WARM_CONDITION
from warmpod.resources.names import (
    DEMOTED_AT,
    PROMOTED_AT,
    REVISION_LABEL,
    WAKE_FAILED_AT,
)

#: For how long a pod that was called may take to wake up. vLLM needs up to 6 s (its blog of
#: 2025-10-26), and its answers are checked after that.
WAKE_PATIENCE = timedelta(seconds=15)
#: For how long a pod may take to be Ready once its gate is open. The kubelet looks at the sidecar
#: once a second.
OPENING_PATIENCE = timedelta(seconds=5)
#: How far clocks of two operators may be apart. What is dated later than that was not written by
#: one, and would be waited for until then.
CLOCKS_APART = timedelta(hours=1)
#: Evidence of about the same age counts the same, else the spread over nodes would never matter.
EVIDENCE_STEP = timedelta(hours=1)


class State(IntEnum):
    """The less, the better for serving."""

    WARM = 0
    OPENING = 1
    """Its gate is open, and it will be Ready in a moment."""
    ASLEEP = 2
    """Or waking up: warm in seconds."""
    COLD = 3
    """On its way to being warm, or dead: nobody knows."""
    STUCK = 4
    """It was called and did not wake up in time."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pod that may be given a role: it lives, and is not being deleted."""

    pod: PodView
    state: State
    serving: bool
    revision: str
    evidence: int
    """Age of its evidence, in steps; 0 where it is not warm."""

    @property
    def uid(self) -> str:
        return self.pod.meta.uid

    @property
    def ready(self) -> bool:
        """Whether it takes traffic if the Service sees it."""
        return self.pod.is_true("Ready")


def members(pods: Iterable[PodView], *, sleeping: bool, now: datetime) -> Iterator[Member]:
    """`sleeping`: whether pods that are asleep were put to sleep by us, and are ours to wake."""
    for pod in pods:
        if pod.alive and not pod.meta.deleting:
            state = state_of(pod, sleeping=sleeping, now=now)
            yield Member(
                pod=pod,
                state=state,
                serving=is_serving(pod),
                revision=pod.meta.labels.get(REVISION_LABEL, ""),
                evidence=_evidence(pod, now) if state is State.WARM else 0,
            )


def time_of(pod: PodView, annotation: str, now: datetime) -> datetime | None:
    """None also where somebody has written there what is no time, or one to come."""
    try:
        found = parse_time(pod.meta.annotations.get(annotation))
    except ValueError:
        return None
    return _past(found, now) if found is not None and found.tzinfo is not None else None


def demoted_at(pod: PodView, now: datetime) -> datetime | None:
    return time_of(pod, DEMOTED_AT, now)


def given_up_at(pod: PodView, now: datetime) -> datetime | None:
    """When a pod that was called counts as stuck; None for one that was not called."""
    if not is_serving(pod) or is_warm(pod):
        return None
    warm = pod.conditions.get(WARM_CONDITION)
    called = time_of(pod, PROMOTED_AT, now) or _past(warm.since if warm else None, now)
    return called + WAKE_PATIENCE if called is not None else None


def late_at(pod: PodView, now: datetime) -> datetime | None:
    """When a pod with an open gate should have been Ready; None for one that is, or was."""
    warm, ready = pod.conditions.get(WARM_CONDITION), pod.conditions.get("Ready")
    opened = _past(warm.since, now) if warm is not None and warm.status == "True" else None
    if opened is None or pod.is_true("Ready"):
        return None
    if ready is not None and ready.since is not None and ready.since > opened:
        return None
    return opened + OPENING_PATIENCE


def state_of(pod: PodView, *, sleeping: bool, now: datetime) -> State:
    """`sleeping`: as of `members`."""
    if is_warm(pod):
        return State.WARM
    late = late_at(pod, now)
    if late is not None and now < late:
        return State.OPENING
    if not sleeping or not sleeps(pod):
        return State.COLD
    given_up = given_up_at(pod, now)
    if WAKE_FAILED_AT in pod.meta.annotations or (given_up is not None and now >= given_up):
        return State.STUCK
    return State.ASLEEP


def _past(at: datetime | None, now: datetime) -> datetime | None:
    return at if at is not None and at <= now + CLOCKS_APART else None


def _evidence(pod: PodView, now: datetime) -> int:
    since = pod.conditions[WARM_CONDITION].since
    return max(0, (now - since) // EVIDENCE_STEP) if since is not None else 0
