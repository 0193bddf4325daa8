"""Which DaemonSets go: each template of prefetch pods has one, for as long as an engine may read
what its pods hold.

docs/decisions/0012 and 0013 have the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import datetime

from warmpod import reasons
from warmpod.controller.objects.views import WorkloadView
from warmpod.controller.observed import Observed
from warmpod.controller.prefetch import rivalry
from warmpod.controller.prefetch.rivalry import Rivalry
from warmpod.controller.telling.transition import Transition, named


@dataclass(frozen=True)
class Removal:
    """A DaemonSet to delete, and what people are told of it."""

    workload: WorkloadView
    event: Transition


def removals(
    observed: Observed, now: datetime, *, complete: bool, kept: Set[str] = frozenset()
) -> Iterator[Removal]:
    """`complete`: the present revision's weights are wherever they can be. `kept`: revisions that
    may be gone back to."""
    used = _used(observed, kept)
    if used is None or observed.present is None:
        return  # the present revision, not rendered yet, may share one of them
    for workload in observed.daemon_sets:
        if workload.meta.deleting or workload.template == observed.weights:
            continue
        if not workload.template:
            # Of a version that had one DaemonSet for all revisions: its successor takes over.
            if complete:
                yield _no_longer_used(workload)
        elif workload.template not in used:
            yield _no_longer_used(workload)
        elif (found := rivalry.find(observed, workload, now)) and found.safe:
            yield _swapped(found)


def _used(observed: Observed, kept: Set[str]) -> set[str] | None:
    """The weights that an engine reads, or would read if the Deployment made another pod. None
    where a revision is not stored any more, so that nobody can tell."""
    used: set[str | None] = {observed.weights_of(pod) for pod in observed.engine_pods if pod.alive}
    if observed.deployment is not None:
        found = observed.stored(observed.deployment.template)
        used.add(found.revision.prefetch_hash if found else None)
    known = {weights for weights in used if weights is not None}
    if known != used:
        return None
    return known | {s.revision.prefetch_hash for s in map(observed.stored, kept) if s}


def _no_longer_used(workload: WorkloadView) -> Removal:
    message = f"DaemonSet {workload.meta.name} is deleted: no engine uses its weights any more"
    return Removal(workload, Transition("Normal", reasons.WEIGHTS_RELEASED, message))


def _swapped(found: Rivalry) -> Removal:
    message = (
        f"{named(found.nodes)}: {found.numbers()}, so DaemonSet {found.old.meta.name} is deleted "
        "first. Engines that run go on serving. To have the old weights back, revert the spec"
    )
    return Removal(found.old, Transition("Warning", reasons.WEIGHTS_SWAPPED, message))
