"""Whether a pod of a new revision will ever be warm, as far as it is the revision's own fault.

A problem must have stood for a while: an engine is started again in place, a single answer may be
an error, and to take a revision back is a strong answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from warmpod import reasons
from warmpod.controller.diagnosis import problems
from warmpod.controller.diagnosis.problems import Area, Problem
from warmpod.controller.objects.views import Key, PodView
from warmpod.resources.names import ENGINE_CONTAINER

#: How long the same problem must have stood, and no other come in between.
PERSISTS = timedelta(seconds=30)

#: What the cluster, a node or time has to mend. A GPU is busy for as long as an old pod goes.
_NOT_ITS_FAULT = frozenset(
    {
        reasons.UNSCHEDULABLE,
        reasons.NODE_NOT_RESPONDING,
        reasons.POD_CREATION_FAILED,
        reasons.POD_FAILED,
        reasons.DISK_FULL,
        reasons.IMAGE_PULL_FAILED,
        reasons.GPU_BUSY,
        reasons.ENGINE_RESTARTING,
        reasons.ASLEEP,
        reasons.WAKING,
    }
)
#: Found out about an engine that runs, which is not started again for it.
_OF_THE_WARM_UP = frozenset(
    {
        reasons.GOLDEN_MISMATCH,
        reasons.WARMUP_FAILED,
        reasons.WARMUP_STALLED,
        reasons.NO_TOKEN_YET,
        reasons.ANSWER_CHANGED,
    }
)


class FailureWatch:
    """Since when each pod has had the problem that it has now. Conditions do not tell: their time
    moves with the status only, which is False all along."""

    def __init__(self) -> None:
        self._since: dict[Key, dict[str, tuple[str, datetime]]] = {}

    def look(self, key: Key, pods: Iterable[PodView], now: datetime) -> Mapping[str, datetime]:
        """By the uid of a pod; only those that have one. `pods`: all of that WarmModel."""
        before = self._since.get(key, {})
        found = {}
        for pod in pods:
            problem, uid = of_pod(pod, now), pod.meta.uid
            if problem is not None and not pod.meta.deleting:
                known = before.get(uid)
                same = known is not None and known[0] == problem.reason
                found[uid] = known if known and same else (str(problem.reason), now)
        self._since[key] = found
        return {uid: since for uid, (_, since) in found.items()}

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)


def of_pod(pod: PodView, now: datetime) -> Problem | None:
    """The worst that keeps it from being warm and will not go away by itself."""
    found = sorted(_lasting(pod, now), key=lambda problem: problem.rank)
    return found[0] if found else None


def _lasting(pod: PodView, now: datetime) -> Iterator[Problem]:
    engine = pod.container(ENGINE_CONTAINER)
    restarted = engine is not None and engine.restarts > 0
    for problem in problems.of_engine_pod(pod, now):
        if problem.reason in _NOT_ITS_FAULT or not problem.needs_person(now):
            continue
        if problem.area is Area.ENGINE and (restarted or _is_final(problem)):
            yield problem


def _is_final(problem: Problem) -> bool:
    """Whether it stands without the engine having been started anew: until the launcher gives up
    and its container ends, the next boot may fare better."""
    return problem.reason in _OF_THE_WARM_UP or problem.reason in _OF_CONTAINERS


_OF_CONTAINERS = frozenset(
    {
        reasons.ENGINE_CRASH_LOOPING,
        reasons.CONTAINER_CRASH_LOOPING,
        reasons.WEIGHTS_INIT_FAILED,
        reasons.CONTAINER_START_FAILED,
        reasons.CONTAINER_CONFIG_ERROR,
        reasons.VOLUME_MOUNT_FAILED,
        reasons.ARCH_MISMATCH,
        reasons.INVALID_IMAGE_NAME,
        reasons.IMAGE_NOT_FOUND,
        reasons.IMAGE_PULL_AUTH,
    }
)
