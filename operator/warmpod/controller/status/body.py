"""The status of a WarmModel, as the API has it: counts, nodes and the last start-ups."""

from __future__ import annotations

from typing import Any

from warmpod.api.status import MAX_FAILED_NODES
from warmpod.controller.accounting import report
from warmpod.controller.accounting.report import Account
from warmpod.controller.diagnosis.problems import NODE_AREAS
from warmpod.controller.facts import Facts
from warmpod.controller.status import progress, startups
from warmpod.resources.names import serving_selector

#: What others than the plan tell, when they have something new to tell.
_KEPT = ("warmNow",)
#: Characters of a message per node.
NODE_MESSAGE = 1000


def build(
    facts: Facts,
    previous: dict[str, Any],
    name: str,
    generation: int,
    model: dict[str, str],
    conditions: list[dict[str, Any]],
    account: Account | None,
) -> dict[str, Any]:
    """`previous`: the status as it is, from which only past start-ups are taken, and sums that are
    not due to be written anew."""
    standby = {"standby": report.section(account, previous, facts.now)} if account else {}
    kept = {name: previous[name] for name in _KEPT if name in previous}
    return kept | {
        **standby,
        "observedGeneration": generation,
        "replicas": facts.serving,
        "readyReplicas": facts.ready,
        "warmReplicas": facts.warm,
        "standbyReplicas": facts.pool.standby,
        # Also without a single pod: an autoscaler gives up on a scale that has no selector.
        "selector": serving_selector(name),
        "conditions": conditions,
        "revision": facts.revision,
        "model": model,
        "nodes": _nodes(facts),
        "lastStartups": startups.last(facts.engine_pods, previous, facts.now),
    }


def build_invalid(
    previous: dict[str, Any], name: str, generation: int, conditions: list[dict[str, Any]]
) -> dict[str, Any]:
    """With a spec that cannot be read, the counts stay what they were."""
    return {
        **previous,
        "observedGeneration": generation,
        "selector": serving_selector(name),
        "conditions": conditions,
    }


def failed_nodes(facts: Facts) -> list[dict[str, str]]:
    """Each with the worst that keeps the weights from it; sorted by name."""
    failed: dict[str, dict[str, str]] = {}
    for problem in facts.node_problems:
        if problem.node not in failed and problem.area in NODE_AREAS:
            failed[problem.node] = {
                "node": problem.node,
                "reason": str(problem.reason),
                "message": problem.message[:NODE_MESSAGE],
            }
    return [failed[node] for node in sorted(failed)]


def _nodes(facts: Facts) -> dict[str, Any]:
    nodes: dict[str, Any] = {
        "eligible": facts.eligible or 0,
        "prefetched": facts.prefetched,
        "resident": facts.resident,
        "failed": failed_nodes(facts)[:MAX_FAILED_NODES],
    }
    if line := progress.line(facts):
        nodes["progress"] = line
    return nodes
