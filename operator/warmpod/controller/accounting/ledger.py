"""What happened to the pods of one WarmModel, as far as this operator saw it.

A pod is *needed* when it has the role `serving` and does not take traffic yet: it was promoted, or
made because too few were there. How it came to take traffic then is the outcome. Seen once, by the
operator that saw it; what a pod was before it was first seen is not guessed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

from warmpod.controller.accounting.rate import Rate
from warmpod.controller.accounting.totals import Totals
from warmpod.controller.objects.engine_pods import is_serving, is_warm, sleeps
from warmpod.controller.objects.views import PodView
from warmpod.protocol import TIMELINE_CONDITION
from warmpod.resources.names import PROMOTED_FROM, REVISION_LABEL
from warmpod.startup import record

SLEEPING = "Sleeping"


class Outcome(StrEnum):
    """How a needed pod came to take traffic."""

    WARM = "warm"
    SLEEPING = "sleeping"
    COLD = "cold"


class Waiting(StrEnum):
    """What a pod that is held back is doing."""

    AWAKE = "awake"
    ASLEEP = "asleep"
    STARTING = "starting"


@dataclass(frozen=True, slots=True)
class _Need:
    since: float
    outcome: Outcome
    """If it comes to take traffic."""


class Ledger:
    """Times are seconds of one monotonic clock."""

    def __init__(self, now: float) -> None:
        self.rate = Rate()
        self.start_seconds: float | None = None
        """What a pod of this model takes to start; None: not known yet."""
        self._totals = Totals()
        self._pods: dict[str, PodView] = {}
        self._waiting: Counter[Waiting] = Counter()
        self._needs: dict[str, _Need] = {}
        self._at = now

    def totals(self, now: float) -> Totals:
        self._advance(now)
        return self._totals

    @property
    def waiting(self) -> Counter[Waiting]:
        """Pods that are held back, by what they do."""
        return self._waiting

    @property
    def is_accruing(self) -> bool:
        """Whether pods wait that cost something."""
        return self.rate.gpus > 0 and (
            self._waiting[Waiting.AWAKE] > 0 or self._waiting[Waiting.ASLEEP] > 0
        )

    def price(self, rate: Rate, now: float) -> None:
        """From now on; what was is settled at the rate of that time."""
        self._advance(now)
        self.rate = rate

    def saw(self, pod: PodView, now: float) -> None:
        if pod.meta.deleting or not pod.alive:
            self.lost(pod, now)
            return
        self._advance(now)
        uid = pod.meta.uid
        known = self._replace(uid, pod)
        outcome = self._judge(known, pod, now)
        if outcome is not None and not self._is_rollout(pod):
            self._count(outcome, self._needs.get(uid), now)
        if not is_serving(pod) or is_warm(pod):
            self._needs.pop(uid, None)

    def lost(self, pod: PodView, now: float) -> None:
        self._advance(now)
        self._replace(pod.meta.uid, None)
        self._needs.pop(pod.meta.uid, None)

    def _replace(self, uid: str, pod: PodView | None) -> PodView | None:
        """Returns what was known of it."""
        known = self._pods.pop(uid, None)
        if known is not None and not is_serving(known):
            self._waiting[_waiting(known)] -= 1
        if pod is not None:
            self._pods[uid] = pod
            if not is_serving(pod):
                self._waiting[_waiting(pod)] += 1
        return known

    def _judge(self, known: PodView | None, pod: PodView, now: float) -> Outcome | None:
        """The outcome of a need that has ended now. One that begins is noted."""
        uid = pod.meta.uid
        if not is_serving(pod):
            return None
        if known is None:
            if not is_warm(pod) and not _was_warm(pod):
                self._needs[uid] = _Need(now, Outcome.COLD)
            return None
        if not is_serving(known):
            asleep = pod.meta.annotations.get(PROMOTED_FROM) == SLEEPING
            if is_warm(pod):
                return Outcome.SLEEPING if asleep else Outcome.WARM
            self._needs[uid] = _Need(now, Outcome.SLEEPING if asleep else Outcome.COLD)
            return None
        need = self._needs.get(uid)
        return need.outcome if need is not None and is_warm(pod) else None

    def _is_rollout(self, pod: PodView) -> bool:
        """Whether it takes the place of a warm pod of another revision, so nobody waited for it."""
        revision = pod.meta.labels.get(REVISION_LABEL)
        others = (other for other in self._pods.values() if is_warm(other))
        return any(other.meta.labels.get(REVISION_LABEL) != revision for other in others)

    def _count(self, outcome: Outcome, need: _Need | None, now: float) -> None:
        totals = self._totals
        if outcome is Outcome.COLD:
            self._totals = replace(totals, cold_starts=totals.cold_starts + 1)
            return
        took = now - need.since if need is not None else 0.0
        saved = max(0.0, (self.start_seconds or 0.0) - took)
        totals = replace(totals, seconds_saved=totals.seconds_saved + saved)
        if outcome is Outcome.WARM:
            self._totals = replace(totals, warm_hits=totals.warm_hits + 1)
        else:
            self._totals = replace(totals, sleeping_hits=totals.sleeping_hits + 1)

    def _advance(self, now: float) -> None:
        """Settle what waiting pods took since the last time, before anything changes."""
        passed, self._at = max(0.0, now - self._at), max(now, self._at)
        awake = passed * self._waiting[Waiting.AWAKE] * self.rate.gpus
        asleep = passed * self._waiting[Waiting.ASLEEP] * self.rate.gpus
        self._totals += Totals(
            awake_gpu_seconds=awake,
            asleep_gpu_seconds=asleep,
            cost=self.rate.cost(awake + asleep),
        )


def _waiting(pod: PodView) -> Waiting:
    if is_warm(pod):
        return Waiting.AWAKE
    return Waiting.ASLEEP if sleeps(pod) else Waiting.STARTING


def _was_warm(pod: PodView) -> bool:
    """Whether its gate has been open before, which its start-up tells also when it is closed."""
    timeline = pod.conditions.get(TIMELINE_CONDITION)
    found = record.read(timeline.message) if timeline is not None else None
    return found is not None and (found.gate is not None or found.cause != "pod-start")
