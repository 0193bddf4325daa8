"""When the Deployment gets a new revision: the weights come first, on all nodes that can have them.

Pure, and apart from everything else: this rule decides how long a change takes and what it costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from warmpod import reasons
from warmpod.controller.diagnosis.problems import NODE_AREAS, Problem
from warmpod.controller.objects.views import PodView
from warmpod.protocol import RESIDENT_CONDITION


@dataclass(frozen=True)
class Nodes:
    """The nodes on which the weights of the present revision are to be."""

    eligible: int | None
    """None while that is not known."""
    arrived: frozenset[str] = frozenset()
    """An engine finds the weights there."""
    failed: frozenset[str] = frozenset()
    """Without a person they will not get there."""

    @property
    def waiting(self) -> int:
        """Nodes to which the weights are on their way."""
        return max(0, (self.eligible or 0) - len(self.arrived) - len(self.failed))

    @property
    def complete(self) -> bool:
        """Nothing more will come by itself, and somewhere it has."""
        return bool(self.arrived) and not self.waiting

    @property
    def hopeless(self) -> bool:
        """Nothing will come by itself, and nowhere it has."""
        return bool(self.failed) and not self.arrived and not self.waiting


def nodes(
    eligible: int | None, pods: Iterable[PodView], found: Iterable[Problem], now: datetime
) -> Nodes:
    """`pods`: the prefetch pods of these weights; `found`: the problems of their nodes, and of
    others, which do not count."""
    pods = tuple(pods)
    here = {pod.meant_for for pod in pods}
    arrived = frozenset(pod.meant_for for pod in pods if has_weights(pod))
    failed = frozenset(
        problem.node
        for problem in found
        if problem.node in here and problem.area in NODE_AREAS and problem.needs_person(now)
    )
    return Nodes(eligible, arrived, failed - arrived)


def has_weights(pod: PodView) -> bool:
    """Where residency cannot be measured it is never True, but the weights are verified."""
    resident = pod.conditions.get(RESIDENT_CONDITION)
    return resident is not None and (
        resident.status == "True" or resident.reason == reasons.RESIDENCY_NOT_MEASURABLE
    )


def may_start(found: Nodes, *, verified: bool, waited_for: bool, returning: bool = False) -> bool:
    """Whether engines of the present revision may start.

    `verified`: on one node at least the weights were verified. `waited_for`: nothing is gained by
    more nodes, because there is no earlier revision that could serve meanwhile, or because it has
    the same weights. `returning`: a node that is not eligible now will be again.

    With no node eligible there is nobody to wait for, and the scheduler must be heard: a cluster
    autoscaler listens to it. But that all nodes are cordoned for a while, or a network is down, is
    no reason to give up a revision that serves for one that nobody has verified.
    """
    if found.eligible is None:
        return False
    if found.eligible == 0:
        return waited_for or not returning
    return verified if waited_for else found.complete
