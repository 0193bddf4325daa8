"""How far the weights are on the nodes, in one line that a table has room for."""

from __future__ import annotations

import re

from warmpod import reasons
from warmpod.api.status import MAX_PROGRESS
from warmpod.controller.diagnosis.problems import NODE_AREAS
from warmpod.controller.facts import Facts
from warmpod.controller.nodes.pods import holds_images, is_gated
from warmpod.controller.objects.views import PodView
from warmpod.protocol import RESIDENT_CONDITION

#: The agent's stages, in the order in which it goes through them.
_STAGES = (reasons.STAGING, reasons.VERIFYING, reasons.LOADING)
_PERCENT = re.compile(r"(\d+) ?%")


def line(facts: Facts) -> str:
    """Such as `2/3 resident; node-b: verified 40 % of 17.0Gi`; empty while nothing is known."""
    if facts.eligible is None:
        return ""
    counts = f"{min(facts.resident, facts.eligible)}/{facts.eligible} resident"
    text = f"{counts}; {slowest}" if (slowest := slowest_node(facts)) else counts
    return text if len(text) <= MAX_PROGRESS else text[: MAX_PROGRESS - 1] + "…"


def slowest_node(facts: Facts) -> str:
    """What the node is at that all wait for; else the reason of one that failed."""
    failed = {p.node: p.reason for p in reversed(facts.node_problems) if p.area in NODE_AREAS}
    waiting = [
        (*_step(pod), pod.meant_for)
        for pod in facts.prefetch_pods
        if not pod.is_true(RESIDENT_CONDITION) and pod.meant_for not in failed
    ]
    if waiting:
        _, _, words, node = min(waiting)
        return f"{node}: {words}" if node else words
    return f"{(node := min(failed))}: {failed[node]}" if failed else ""


def _step(pod: PodView) -> tuple[int, int, str]:
    """Stage, percent done of it, and the words for it."""
    if is_gated(pod):
        return 0, 0, "waits for its turn to pull"
    if not pod.node:
        scheduled = pod.conditions.get("PodScheduled")
        gated = scheduled is not None and scheduled.reason == "SchedulingGated"
        return 0, 0, "waits for its turn" if gated else "waits for the scheduler"
    if not holds_images(pod):
        return 1, 0, "pulls the images"
    resident = pod.conditions.get(RESIDENT_CONDITION)
    if resident is None or resident.reason not in _STAGES:
        return 2, 0, "starts to look at the weights"
    percent = _PERCENT.search(resident.message)
    words = resident.message or resident.reason
    return 3 + _STAGES.index(resident.reason), int(percent[1]) if percent else 0, words
