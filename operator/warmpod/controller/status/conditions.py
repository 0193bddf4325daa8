"""The conditions of a WarmModel: each a small pure function of the facts.

Ready is the summary. Reconciling and Stalled follow kstatus: never both True, Reconciling while
work is under way, Stalled when a person must act.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from warmpod import reasons
from warmpod.api import InvalidSpec
from warmpod.controller.demand import Demand
from warmpod.controller.diagnosis.problems import ENGINE_PROGRESS, NOTICES, Area, Problem
from warmpod.controller.facts import Facts
from warmpod.controller.nodes.pods import holds_images
from warmpod.controller.objects.meta import time_text
from warmpod.controller.objects.views import PodView
from warmpod.controller.status import progress, standby
from warmpod.controller.telling.condition import STANDBY_READY, Condition, Status, short
from warmpod.protocol import WARM_CONDITION

READY = "Ready"
PREFETCHED = "Prefetched"
WEIGHTS_RESIDENT = "WeightsResident"
WARM = "Warm"
SCALED_AHEAD = "ScaledAhead"
RECONCILING = "Reconciling"
STALLED = "Stalled"
TYPES = (
    READY,
    PREFETCHED,
    WEIGHTS_RESIDENT,
    WARM,
    STANDBY_READY,
    SCALED_AHEAD,
    RECONCILING,
    STALLED,
)


def of(facts: Facts) -> dict[str, Condition]:
    warm = _warm(facts)
    ready = _ready(facts, warm)
    stalled = _stalled(facts, ready)
    return {
        READY: ready,
        PREFETCHED: _prefetched(facts),
        WEIGHTS_RESIDENT: _weights_resident(facts),
        WARM: warm,
        STANDBY_READY: standby.of(facts),
        SCALED_AHEAD: _scaled_ahead(facts.pool.demand),
        RECONCILING: _reconciling(facts, ready, stalled),
        STALLED: stalled,
    }


def of_invalid(invalid: InvalidSpec) -> dict[str, Condition]:
    """Nothing is touched, so what runs goes on running; what it is cannot be told."""
    unknown = Condition("Unknown", reasons.INVALID_SPEC, str(invalid))
    return {
        **dict.fromkeys(TYPES, unknown),
        READY: Condition("False", reasons.INVALID_SPEC, str(invalid)),
        RECONCILING: Condition("False", reasons.INVALID_SPEC, str(invalid)),
        STALLED: Condition("True", reasons.INVALID_SPEC, str(invalid)),
    }


def merge(
    found: dict[str, Condition], previous: list[dict[str, Any]], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """As the API has them; the transition time moves only with the status."""
    before = {condition.get("type"): condition for condition in previous}
    merged = []
    for name in TYPES:
        condition, old = found[name], before.get(name, {})
        same = old.get("status") == condition.status and old.get("lastTransitionTime")
        merged.append(
            {
                "type": name,
                "status": condition.status,
                "observedGeneration": generation,
                "lastTransitionTime": same or time_text(now),
                "reason": str(condition.reason),
                "message": condition.message,
            }
        )
    return merged


def _scaled_ahead(demand: Demand) -> Condition:
    numbers = f"{demand.serving} serving and {demand.standby} standby pods are asked for"
    message = short(f"{numbers}. {demand.why}".rstrip(". "))
    return Condition("True" if demand.raised else "False", demand.reason, message)


def _ready(facts: Facts, warm: Condition) -> Condition:
    blocked = _first(facts, Area.SPEC)
    notices = [p for p in facts.problems if p.reason in NOTICES]
    if warm.status == "True" and blocked is None and not facts.taken_back:
        if facts.reachable < facts.wanted:
            waiting = reasons.WAITING_FOR_ENDPOINTS
            return Condition(_not_true(facts), waiting, f"{warm.message}. {waiting.meaning}")
        return Condition("True", warm.reason, _join(warm.message, *notices))
    if facts.previous_serves and blocked is None:
        return _previous_serves(facts)
    serious = [p for p in facts.problems if p.reason not in NOTICES]
    if serious:
        # What stands in the way of one thing is said once, by the worst of it.
        other = [p for p in serious if p.area != serious[0].area][:1]
        return Condition("False", serious[0].reason, _join(serious[0], *other, *notices))
    return Condition(_not_true(facts), warm.reason, _join(warm.message, *notices))


def _previous_serves(facts: Facts) -> Condition:
    reason = reasons.PREVIOUS_REVISION_SERVES
    count = f"{min(facts.others, facts.wanted)} of {facts.wanted} pods are warm"
    return Condition("True", reason, f"{count}. {reason.meaning}")


def _prefetched(facts: Facts) -> Condition:
    problem = _first(facts, Area.SPEC, Area.IMAGES) or _held_up(facts)
    if facts.eligible is None:
        return _unknown_or(problem, _beginning(facts))
    if facts.eligible == 0:
        return _no_eligible_nodes(facts)
    if facts.prefetched >= facts.eligible:
        return Condition(
            "True", reasons.PREFETCHED, _nodes(facts.prefetched, facts, "hold all images")
        )
    if problem is not None:
        return Condition("False", problem.reason, short(problem.message))
    return _prefetching(facts)


def _held_up(facts: Facts) -> Problem | None:
    """What keeps a prefetch pod from its images although nothing is wrong with them: the kubelet
    mounts all volumes first."""
    without = {pod.meant_for for pod in facts.prefetch_pods if not holds_images(pod)}
    found = (p for p in facts.problems if p.area is Area.WEIGHTS and p.node)
    return next((p for p in found if p.node in without), None)


def _prefetching(facts: Facts) -> Condition:
    queue = facts.queue
    if queue is None:
        return Condition("False", reasons.PREFETCHING, reasons.PREFETCHING.meaning)
    if queue.moves:
        message = f"{reasons.PREFETCHING.meaning} {queue}"
        return Condition("False", reasons.PREFETCHING, message)
    return Condition("False", reasons.WAITING_FOR_TURN, str(queue))


def _no_eligible_nodes(facts: Facts) -> Condition:
    reason = reasons.NO_ELIGIBLE_NODES
    if not facts.unfit:
        return Condition("False", reason, _remedied(reason))
    worst = sorted(facts.unfit.items(), key=lambda item: (-item[1], item[0]))
    why = ", ".join(f"{count} {what}" for what, count in worst)
    nodes = sum(facts.unfit.values())
    return Condition("False", reason, short(f"{reason.meaning} Of {nodes}: {why}. {reason.remedy}"))


def _weights_resident(facts: Facts) -> Condition:
    problem = _first(facts, Area.SPEC, Area.WEIGHTS)
    if facts.eligible is None:
        return _unknown_or(problem, _beginning(facts))
    if facts.eligible == 0:
        return _no_eligible_nodes(facts)
    count = _nodes(facts.resident, facts, "have the weights")
    if facts.resident >= facts.eligible:
        reason = reasons.RESIDENT if facts.held_on_nodes else reasons.VERIFIED
        return Condition("True", reason, count)
    if problem is not None:
        return Condition("False", problem.reason, short(f"{count}. {problem.message}"))
    waited_for = progress.slowest_node(facts) or reasons.PREFETCHING.meaning
    reason = reasons.PREFETCHING if facts.prefetched < facts.eligible else reasons.VERIFYING
    return Condition("False", reason, short(f"{count}. {waited_for}"))


def _warm(facts: Facts) -> Condition:
    if facts.wanted == 0:
        return Condition("True", reasons.SCALED_TO_ZERO, reasons.SCALED_TO_ZERO.meaning)
    count = f"{min(facts.warm_serving, facts.wanted)} of {facts.wanted} pods are warm"
    if facts.warm_serving >= facts.wanted:
        return _all_warm(facts, count)
    problem = _first(facts, Area.SPEC, Area.ENGINE)
    if problem is not None and problem.reason not in NOTICES:
        return Condition("False", problem.reason, short(f"{count}. {problem.message}"))
    reason, why = _engine_progress(facts)
    meanwhile = " Pods of the previous revision serve meanwhile." if facts.others_serve else ""
    return Condition(_not_true(facts), reason, f"{count}. {why}{meanwhile}")


def _all_warm(facts: Facts, count: str) -> Condition:
    unproven = reasons.OPENED_UNPROVEN
    if any(pod.conditions[WARM_CONDITION].reason == unproven for pod in facts.warm_pods):
        return Condition("True", unproven, f"{count}. {_remedied(unproven)}")
    return Condition("True", reasons.ALL_WARM, count)


def _not_true(facts: Facts) -> Status:
    return "False" if facts.begun else "Unknown"


def _engine_progress(facts: Facts) -> tuple[str, str]:
    if not facts.stored or facts.eligible is None:
        beginning = _beginning(facts)
        return beginning.reason, beginning.message
    if not facts.engine_pods:
        if not facts.may_start:
            return reasons.WAITING_FOR_WEIGHTS, reasons.WAITING_FOR_WEIGHTS.meaning
        return reasons.WAITING_FOR_PODS, reasons.WAITING_FOR_PODS.meaning
    reported = {_reported(pod) for pod in facts.engine_pods} - {""}
    for reason in ENGINE_PROGRESS:
        if reason in reported:
            return reason, reason.meaning
    return reasons.WAITING_FOR_WARM_PODS, reasons.WAITING_FOR_WARM_PODS.meaning


def _reported(pod: PodView) -> str:
    warm = pod.conditions.get(WARM_CONDITION)
    return "" if warm is None or warm.status == "True" else warm.reason


def _stalled(facts: Facts, ready: Condition) -> Condition:
    """What is wrong with one node of many does not stall a model that serves as asked, nor one
    whose new weights are on their way to other nodes."""
    for problem in facts.problems:
        if problem.needs_person(facts.now) and _stops(problem, facts, ready):
            return Condition("True", problem.reason, short(problem.message))
    return Condition("False", reasons.NOTHING_WRONG, reasons.NOTHING_WRONG.meaning)


def _stops(problem: Problem, facts: Facts, ready: Condition) -> bool:
    if ready.status != "True" or problem.reason == reasons.ROLLOUT_REJECTED:
        return True
    return facts.previous_serves and (not problem.node or facts.nodes.hopeless)


def _reconciling(facts: Facts, ready: Condition, stalled: Condition) -> Condition:
    if stalled.status == "True":
        return Condition("False", stalled.reason, stalled.message)
    if ready.status == "True" and not facts.held_back:
        return Condition("False", reasons.UP_TO_DATE, reasons.UP_TO_DATE.meaning)
    why = facts.step.why
    told = [ready.message, *([why[0].upper() + why[1:]] if why else [])]
    return Condition("True", facts.step.reason, _join(*told))


def _beginning(facts: Facts) -> Condition:
    reason = reasons.CREATING if facts.stored else reasons.RESOLVING_IMAGES
    return Condition("Unknown", reason, reason.meaning)


def _unknown_or(problem: Problem | None, otherwise: Condition) -> Condition:
    if problem is None:
        return otherwise
    return Condition("Unknown", problem.reason, short(problem.message))


def _first(facts: Facts, *areas: Area) -> Problem | None:
    return next((p for p in facts.problems if p.area in areas), None)


def _nodes(count: int, facts: Facts, what: str) -> str:
    return f"{min(count, facts.eligible or 0)} of {facts.eligible} nodes {what}"


def _remedied(reason: reasons.Reason) -> str:
    return f"{reason.meaning} {reason.remedy}"


def _join(*parts: str | Problem) -> str:
    texts = (short(part if isinstance(part, str) else part.message) for part in parts)
    return ". ".join(text.rstrip(".") for text in texts)
