"""How the pods of one revision take the place of another's: with one pod more for a while where a
node has room for it, else by giving up old ones first.

Pure. docs/decisions/0021 has what the Deployment controller makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from warmpod import reasons
from warmpod.api import WarmModel
from warmpod.controller import demand
from warmpod.controller.objects.engine_pods import is_serving
from warmpod.controller.objects.views import PodView
from warmpod.controller.observed import Observed
from warmpod.controller.rollouts.verdict import Verdicts
from warmpod.protocol import WARM_CONDITION
from warmpod.reasons import Reason
from warmpod.resources.deployment import Strategy
from warmpod.resources.names import REVISION_LABEL

#: How long the scheduler must have found no place before it is believed more than our own sums.
PATIENCE = timedelta(seconds=15)
#: Seconds until room is looked for again.
RECHECK = 10.0


@dataclass(frozen=True)
class Step:
    strategy: Strategy = field(default_factory=Strategy)
    why: str = ""
    """For people; empty while no pods are replaced."""
    reason: Reason = reasons.PROGRESSING


def under_way(observed: Observed, coming: str) -> bool:
    """Whether pods are replaced by those of the revision `coming`, or are to be."""
    live = observed.deployment
    return live is not None and (
        live.template != coming
        or any(pod.meta.labels.get(REVISION_LABEL) != coming for pod in _staying(observed))
    )


def step(
    observed: Observed, model: WarmModel, coming: str, verdicts: Verdicts, now: datetime
) -> Step:
    """`coming`: the revision that the Deployment has or gets, by hash."""
    held = coming in verdicts.unjudged
    if not under_way(observed, coming):
        return Step(Strategy(held=held))
    full = _no_room(observed, coming, now)
    if full is None:
        asleep = 0 if held else sum(map(_is_asleep, _staying(observed)))
        return Step(Strategy(1, asleep, held), _with_room(observed))
    if observed.room is not None and observed.room.places < _placed(observed):
        # What an old pod gives up would not be enough for a new one.
        words = f"{observed.room.why}; that is less than what is there, so no old pod goes for it"
        return Step(Strategy(1, 0, held), words, reasons.ROLLOUT_WAITS_FOR_ROOM)
    at_once = 1 if held else _replaceable(observed, model, now)
    serve_on = at_once < len(_staying(observed))
    gap = "" if serve_on else ", and none serves until a new one is warm"
    return Step(
        Strategy(0, at_once, held),
        f"{full}, so {at_once} old pod{'s go' if at_once > 1 else ' goes'} before a new one "
        f"comes{gap}",
        reasons.ROLLOUT_ONE_BY_ONE,
    )


def due(observed: Observed, coming: str, now: datetime) -> datetime | None:
    """When the scheduler's word starts to count."""
    dates = [since + PATIENCE for _, since in _unplaced(observed, coming)]
    return min((date for date in dates if date > now), default=None)


def _no_room(observed: Observed, coming: str, now: datetime) -> str | None:
    """Why no pod is added before one goes; None where one is, and where nobody could be asked: who
    does not know what a place takes cannot know that giving one up helps."""
    if observed.room is None:
        return None
    leaving = any(pod.alive and pod.meta.deleting for pod in observed.engine_pods)
    for message, since in _unplaced(observed, coming):
        if not leaving and now - since >= PATIENCE:
            return f"the scheduler finds no place for one more pod ({message})"
    return None if observed.room.fits or _surges(observed) else observed.room.why


def _with_room(observed: Observed) -> str:
    """Where nobody could be asked, nothing is said."""
    if observed.room is None:
        return ""
    if not observed.room.fits:
        return "one pod more than asked for is there until the new ones are warm"
    return f"{observed.room.why}: a new one comes before an old one goes"


def _unplaced(observed: Observed, coming: str) -> list[tuple[str, datetime]]:
    found = []
    for pod in _staying(observed):
        scheduled = pod.conditions.get("PodScheduled")
        if (
            pod.meta.labels.get(REVISION_LABEL) == coming
            and scheduled is not None
            and scheduled.reason == "Unschedulable"
            and scheduled.since is not None
        ):
            found.append((scheduled.message, scheduled.since))
    return found


def _surges(observed: Observed) -> bool:
    """Whether a pod that was added has its place, which nobody takes from it."""
    return observed.deployment is not None and _placed(observed) > observed.deployment.desired


def _placed(observed: Observed) -> int:
    return sum(bool(pod.node) for pod in _staying(observed))


def _replaceable(observed: Observed, model: WarmModel, now: datetime) -> int:
    """Pods that may go at once: those that are held back, since no user misses them."""
    held_back = sum(not is_serving(pod) for pod in _staying(observed))
    return max(1, min(held_back, demand.of(model, now, observed.known).standby))


def _staying(observed: Observed) -> tuple[PodView, ...]:
    return tuple(p for p in observed.engine_pods if p.alive and not p.meta.deleting)


def _is_asleep(pod: PodView) -> bool:
    warm = pod.conditions.get(WARM_CONDITION)
    return warm is not None and warm.reason == reasons.ASLEEP and not is_serving(pod)
