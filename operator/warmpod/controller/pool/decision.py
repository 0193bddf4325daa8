"""What becomes of the engine pods of one WarmModel: who serves, who is held back, who sleeps.

Pure and total: any pods, in any state, have one answer, and deciding again after it was carried out
changes nothing. All that is remembered between two decisions stands in labels and annotations of
the pods, so an operator that dies between any two writes leaves nothing that the next one cannot
finish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from warmpod.controller.demand import Demand
from warmpod.controller.objects.meta import DELETION_COST, time_text
from warmpod.controller.objects.views import PodView
from warmpod.controller.pool.choice import choose
from warmpod.controller.pool.members import (
    Member,
    State,
    demoted_at,
    given_up_at,
    late_at,
    members,
)
from warmpod.resources import deployment
from warmpod.resources.names import (
    DEMOTED_AT,
    PROMOTED_AT,
    PROMOTED_FROM,
    SERVING,
    STANDBY,
    WAKE_FAILED_AT,
)

#: A pod that is demoted may get requests for that long, until every node knows; and a pod is idle
#: when it has been for that long.
SETTLED = timedelta(seconds=deployment.MIN_READY_SECONDS)
#: Seconds between two looks at pods that drain or wake up, of which no event tells.
POLL = 1.0
#: Seconds between two looks at pods that are to fall asleep: they say when they do.
SLEEP_POLL = 5.0

#: Which pod a ReplicaSet deletes first, of those that are equally ready. One that was never
#: touched has 0: it serves since it was made.
_COST = {SERVING: "1", STANDBY: "-1"}
_CAME_FROM = {State.WARM: "Awake", State.ASLEEP: "Sleeping"}


@dataclass(frozen=True)
class Situation:
    pods: tuple[PodView, ...]
    """All engine pods."""
    demand: Demand
    current: str
    """The revision that the spec asks for."""
    sleeping: bool
    """Whether standby pods are to sleep."""
    unaccepted: frozenset[str]
    """Revisions that are not to serve: rejected ones, and one that was not judged yet."""
    idle: Mapping[str, datetime]
    """Since when pods have no requests, by uid, of those that were asked."""
    grace: timedelta
    """For how long a demoted pod is waited for."""
    desired: int | None
    """Pods that the Deployment wants; None without one."""
    rolled_out: bool
    """Whether the Deployment's controller is done: it waits for pods that are Ready."""
    now: datetime


@dataclass(frozen=True)
class RoleChange:
    pod: PodView
    role: str
    annotations: Mapping[str, str | None]
    """None takes one away."""
    state: State
    """Of the pod at that time."""

    @property
    def promotes(self) -> bool:
        return self.role == SERVING


@dataclass(frozen=True)
class PoolPlan:
    demand: Demand
    changes: tuple[RoleChange, ...]
    """Promotions first."""
    wake: tuple[PodView, ...]
    """To be called until they are awake."""
    sleep: tuple[PodView, ...]
    ask: tuple[PodView, ...]
    """Those whose requests matter, also while they are known to have none."""
    replicas: int
    """Of the Deployment."""
    standby: int
    """Pods that are held back, in any state."""
    filled: int
    """Of these, pods that could be promoted now: warm or asleep, and accepted."""
    again: float | None
    """Seconds after which to look at pods again that no event tells of."""
    due: datetime | None
    """When the answer changes by itself: a pod that was called is given up, one that drains is not
    waited for any more."""


def decide(situation: Situation) -> PoolPlan:
    found = tuple(members(situation.pods, sleeping=situation.sleeping, now=situation.now))
    demand = situation.demand
    serving = choose(found, demand.serving, situation.current, situation.unaccepted)
    held = [member for member in found if member.uid not in serving]
    parting = [member for member in held if _may_have_requests(member, situation)]
    draining = [member for member in parting if not _is_idle(member, situation)]
    resting = _to_rest(held, len(found) - demand.pods, situation)
    tired = [member for member in resting if _is_idle(member, situation)]
    surplus = situation.desired is not None and situation.desired > demand.pods
    asked = {member.uid: member for member in (*(parting if surplus else ()), *resting)}
    waking = _to_wake(found, serving)
    return PoolPlan(
        demand=demand,
        changes=tuple(_changes(found, serving, situation.now)),
        wake=tuple(member.pod for member in waking),
        sleep=tuple(member.pod for member in tired),
        ask=tuple(member.pod for member in asked.values()),
        replicas=_replicas(demand.pods, found, situation.desired, draining=bool(draining)),
        standby=len(held),
        filled=sum(_can_be_promoted(member, situation) for member in held),
        again=_again(waking, len(asked) > len(tired), bool(tired)),
        due=min(_dates(found, situation), default=None),
    )


def _changes(
    found: tuple[Member, ...], serving: frozenset[str], now: datetime
) -> Iterator[RoleChange]:
    """Only of roles that change: each one has every node's rules written anew."""
    time = time_text(now)
    for member in found:
        if member.uid in serving and not member.serving:
            yield RoleChange(member.pod, SERVING, _promoted(member, time), member.state)
    for member in found:
        if member.uid not in serving and member.serving:
            yield RoleChange(member.pod, STANDBY, _demoted(member, time), member.state)


def _promoted(member: Member, time: str) -> dict[str, str | None]:
    return {
        DELETION_COST: _COST[SERVING],
        PROMOTED_FROM: _CAME_FROM.get(member.state),
        PROMOTED_AT: time,
        DEMOTED_AT: None,
    }


def _demoted(member: Member, time: str) -> dict[str, str | None]:
    cost: dict[str, str | None] = {DELETION_COST: _COST[STANDBY]}
    failed = {WAKE_FAILED_AT: time} if member.state is State.STUCK else {}
    took_traffic = {DEMOTED_AT: time} if member.ready else {}
    return cost | {PROMOTED_FROM: None, PROMOTED_AT: None} | failed | took_traffic


def _may_have_requests(member: Member, situation: Situation) -> bool:
    """Whether a pod that does not serve (any more) can have some left."""
    if member.serving:
        return member.ready
    since = demoted_at(member.pod, situation.now)
    if since is None or member.state in (State.ASLEEP, State.STUCK):
        return False
    return situation.now - since < situation.grace


def _is_idle(member: Member, situation: Situation) -> bool:
    """Whether it has had no request for long enough, and every node knows that it gets none."""
    since = situation.idle.get(member.uid)
    if since is None or member.serving:
        return False
    demoted = demoted_at(member.pod, situation.now)
    return situation.now - max(since, demoted or since) >= SETTLED


def _replicas(
    wanted: int, found: tuple[Member, ...], desired: int | None, *, draining: bool
) -> int:
    """Which pods go is the ReplicaSet's choice, so while one drains only those may that it takes
    first whatever else it knows: pods that are not Ready. The number never rises for a pod that
    drains."""
    if desired is None or not draining:
        return wanted
    return max(wanted, min(desired, sum(member.ready for member in found)))


def _to_wake(found: tuple[Member, ...], serving: frozenset[str]) -> list[Member]:
    """Also pods that were called before: nobody knows whether they were told."""
    asleep = (State.ASLEEP, State.STUCK)
    return [member for member in found if member.uid in serving and member.state in asleep]


def _to_rest(held: list[Member], surplus: int, situation: Situation) -> list[Member]:
    """Pods that are to sleep once they are idle. None while the Deployment's controller still waits
    for pods that are Ready, or is about to delete some: it takes those that are not Ready first."""
    if not situation.sleeping or not situation.rolled_out or surplus > 0:
        return []
    return [m for m in held if m.state is State.WARM and not m.serving]


def _can_be_promoted(member: Member, situation: Situation) -> bool:
    ready = member.state in (State.WARM, State.ASLEEP)
    return ready and member.revision not in situation.unaccepted


def _again(waking: list[Member], asked: bool, tired: bool) -> float | None:
    if asked or any(member.state is State.ASLEEP for member in waking):
        return POLL
    return SLEEP_POLL if waking or tired else None


def _dates(found: tuple[Member, ...], situation: Situation) -> Iterator[datetime]:
    for member in found:
        asleep = member.state is State.ASLEEP
        given_up = given_up_at(member.pod, situation.now) if asleep else None
        demoted = demoted_at(member.pod, situation.now)
        late = late_at(member.pod, situation.now) if member.state is State.OPENING else None
        dates = (given_up, late, demoted + situation.grace if demoted is not None else None)
        yield from (date for date in dates if date is not None and date > situation.now)
