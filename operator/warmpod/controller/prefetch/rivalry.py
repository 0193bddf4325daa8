"""Nodes whose memory does not hold the weights of two revisions at once.

Where the old weights can go without harm to an engine, they go before the new ones come. The
scheduler is the judge of what fits, because only it knows what else runs on a node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from warmpod import reasons
from warmpod.controller.diagnosis.problems import Area, Problem
from warmpod.controller.objects.views import ConditionView, WorkloadView
from warmpod.controller.observed import Observed
from warmpod.protocol import AGENT_CONFIG_VARIABLE
from warmpod.resources.names import AGENT_CONTAINER
from warmpod.resources.revision import Revision

#: How long the scheduler must have found no memory: what is going away still counts for it.
PATIENCE = timedelta(seconds=20)
_NO_MEMORY = "Insufficient memory"


@dataclass(frozen=True)
class Rivalry:
    """Old and new weights want the memory of the same nodes."""

    old: WorkloadView
    nodes: tuple[str, ...]
    has: str
    """Memory that the agent of the old weights requests, as a quantity."""
    wants: str
    """The same of the new ones."""
    scheduler: str
    safe: bool
    """Whether the memory is free once the old DaemonSet is gone, and no engine needs it."""

    def numbers(self) -> str:
        return (
            f"the agent of the new weights wants {self.wants} of memory where that of "
            f"{self.old.meta.name} has {self.has} (scheduler: {self.scheduler})"
        )


def find(observed: Observed, old: WorkloadView, now: datetime) -> Rivalry | None:
    """What keeps the present revision's weights from nodes that hold the `old` ones."""
    present, before = observed.present, _revision_with(observed, old.template)
    if present is None or before is None or old.template == observed.weights:
        return None
    full = {
        node: condition
        for node, condition in _full(observed).items()
        if condition.since is not None and now - condition.since >= PATIENCE
    }
    held = {pod.node for pod in observed.prefetch_pods_of(old.template)}
    nodes = tuple(sorted(held & set(full)))
    if not nodes:
        return None
    return Rivalry(
        old=old,
        nodes=nodes,
        has=_request(before),
        wants=_request(present.revision),
        scheduler=full[nodes[0]].message,
        safe=_frees_at_once(before) or not _engines_on(observed, old.template, nodes),
    )


def problems(observed: Observed, now: datetime) -> Iterator[Problem]:
    """Nodes on which the old weights cannot go first."""
    for workload in observed.daemon_sets:
        found = find(observed, workload, now)
        if found is None or found.safe:
            continue
        for node in found.nodes:
            words = f"node {node}: {found.numbers()}, and engines there use the old weights"
            message = f"{words} — {reasons.NO_ROOM_FOR_BOTH.remedy}"
            yield Problem(reasons.NO_ROOM_FOR_BOTH, message, Area.WEIGHTS, node)


def due(observed: Observed, now: datetime) -> datetime | None:
    """When the next shortage has lasted long enough to be acted on."""
    dates = [c.since + PATIENCE for c in _full(observed).values() if c.since is not None]
    return min((date for date in dates if date > now), default=None)


def _full(observed: Observed) -> dict[str, ConditionView]:
    """Nodes that the scheduler finds too full for the new weights' agent, without those that a
    prefetch pod is about to leave."""
    going = {pod.node for pod in observed.prefetch_pods if pod.meta.deleting}
    found = {}
    for pod in observed.prefetch_pods_of(observed.weights):
        scheduled = pod.conditions.get("PodScheduled")
        if scheduled is None or scheduled.reason != "Unschedulable" or pod.meant_for in going:
            continue
        if _NO_MEMORY in scheduled.message:
            found[pod.meant_for] = scheduled
    return found


def _engines_on(observed: Observed, weights: str, nodes: tuple[str, ...]) -> bool:
    return any(
        pod.alive and pod.node in nodes and observed.weights_of(pod) == weights
        for pod in observed.engine_pods
    )


def _revision_with(observed: Observed, weights: str) -> Revision | None:
    return next(
        (s.revision for s in observed.revisions if s.revision.prefetch_hash == weights), None
    )


def _frees_at_once(revision: Revision) -> bool:
    """A copy in the node's memory stays for as long as an engine has it open, whoever asked for
    that memory. Page cache can be dropped at any time, and a pod's own copy goes with the pod."""
    variables = _agent(revision).get("env") or ()
    config = next((v["value"] for v in variables if v["name"] == AGENT_CONFIG_VARIABLE), "{}")
    return json.loads(config).get("medium") in ("Image", "PodMemory")


def _request(revision: Revision) -> str:
    requests = (_agent(revision).get("resources") or {}).get("requests") or {}
    return str(requests.get("memory", "0"))


def _agent(revision: Revision) -> dict[str, Any]:
    containers: list[dict[str, Any]] = revision.prefetch_template["spec"]["containers"]
    return next((c for c in containers if c["name"] == AGENT_CONTAINER), {})
