"""What to do about a WarmModel: a pure function of what was observed and the time.

Everything that decides stands here and in what this module calls; reading and writing stand
elsewhere. The plan is made anew from scratch each time, so it does not matter which event led to
it, nor what was done before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from warmpod import reasons
from warmpod.api import InvalidSpec, WarmModel
from warmpod.controller import pool
from warmpod.controller.accounting import report
from warmpod.controller.apiserver.kinds import CONTROLLER_REVISION, DAEMON_SET, Kind
from warmpod.controller.clients.resolver import Resolution, Resolved, Unresolved
from warmpod.controller.diagnosis import mounts, problems
from warmpod.controller.diagnosis.problems import ADVICE, NOTICES
from warmpod.controller.facts import MIN_READY, Facts, gather
from warmpod.controller.nodes import pods
from warmpod.controller.nodes.pods import PodChanges
from warmpod.controller.objects.views import Meta
from warmpod.controller.observed import Observed, StoredRevision
from warmpod.controller.pool import PoolPlan, RoleChange, situation
from warmpod.controller.prefetch import daemon_sets, rivalry
from warmpod.controller.prefetch.daemon_sets import Removal
from warmpod.controller.rollouts import marking, steps, verdict
from warmpod.controller.rollouts.verdict import Conclusion
from warmpod.controller.status import body, conditions, standby
from warmpod.controller.telling.transition import Transition
from warmpod.resources import daemonset, deployment, disruption_budget, rbac, revision, service
from warmpod.resources.digests import Digests
from warmpod.resources.names import REVISION_LABEL
from warmpod.resources.revision import Revision

Object = dict[str, Any]

#: Old revisions that are kept to go back to.
KEPT_REVISIONS = 5
#: Seconds until an outside fact that nobody tells us about is looked at again (a foreign object in
#: the way, the namespace's Pod Security level, an image that is not there yet).
RECHECK = 15.0
#: Seconds until missing pods are asked after: their controller may just be about to create them.
MISSING = 3.0


@dataclass(frozen=True)
class Deletion:
    kind: Kind
    meta: Meta


@dataclass(frozen=True)
class Plan:
    apply: tuple[Object, ...]
    """In this order; the first that fails does not keep the others from being tried."""
    delete: tuple[Deletion, ...]
    status: Object | None
    """None: the WarmModel is being deleted, and nobody reads it any more."""
    events: tuple[Transition, ...]
    """About what is applied and deleted; those about the status are made when it is written."""
    requeue_after: float | None
    failed_nodes: tuple[tuple[str, str], ...] = ()
    """Every node that the weights cannot get to, and the reason: the status has the first few."""
    pods: PodChanges = field(default_factory=PodChanges)
    """What becomes of prefetch pods that exist."""
    pool: PoolPlan | None = None
    """What becomes of engine pods; None where it is not known how many are asked for."""
    advice: tuple[Transition, ...] = ()
    """What is said for as long as it holds, and an event when it begins to."""


def make(observed: Observed, now: datetime) -> Plan:
    if observed.view.meta.deleting:
        # Its children have an ownerReference; the garbage collector does the rest.
        return Plan((), (), None, (), None)
    if isinstance(observed.model, InvalidSpec):
        return _plan_invalid(observed, observed.model, now)
    return _plan(observed, observed.model, now)


def roles(observed: Observed, now: datetime) -> tuple[tuple[RoleChange, ...], int]:
    """Which pods are to serve and which are not, and how many are asked for to serve.

    Apart from the plan, and of what is known already: it is to be carried out before anything else
    is asked for or written.
    """
    model = observed.model
    if observed.view.meta.deleting or isinstance(model, InvalidSpec):
        return (), 0
    found = pool.decide(situation.of(observed, model, now))
    return found.changes, found.demand.serving


def _plan_invalid(observed: Observed, invalid: InvalidSpec, now: datetime) -> Plan:
    previous = observed.view.body.get("status") or {}
    generation = observed.view.meta.generation
    found = conditions.of_invalid(invalid)
    merged = conditions.merge(found, previous.get("conditions") or [], generation, now)
    new = body.build_invalid(previous, observed.view.meta.name, generation, merged)
    # What the last good spec made stays, and so do its weights on nodes that come and go.
    changes = pods.changes(observed.prefetch_pods, observed.nodes, now)
    return Plan((), (), new, (), RECHECK if _waits_for_turn(observed) else None, pods=changes)


def _plan(observed: Observed, model: WarmModel, now: datetime) -> Plan:
    facts = gather(observed, model, now)
    present = observed.present
    events: list[Transition] = []
    apply = list(_base(model, facts))
    for found in _concluded(observed, model, facts):
        apply.append(revision.build(model, found.stored.revision, found.marks.annotations()))
        events += _told(found)
    if present is not None:
        if present.view.meta.owner_uid != model.uid:
            # An orphan is adopted, with what is known of it.
            annotations = marking.of(present).annotations()
            apply.append(revision.build(model, present.revision, annotations))
        apply += _workloads(observed, model, present.revision, facts)
    elif not _blocked(observed, facts):
        rendered = _render(observed, model)
        if rendered is not None:
            apply.append(revision.build(model, rendered))
            events += _revision_events(observed, model, rendered, facts)
    complete, kept = facts.nodes.complete, facts.verdicts.kept
    removals = tuple(daemon_sets.removals(observed, now, complete=complete, kept=kept))
    events += [removal.event for removal in removals]
    return Plan(
        apply=tuple(apply),
        delete=tuple(_deletions(observed, removals, kept)),
        status=_status(observed, model, facts),
        events=tuple(events),
        requeue_after=_look_again(observed, facts),
        failed_nodes=tuple((f["node"], f["reason"]) for f in body.failed_nodes(facts)),
        pods=pods.changes(observed.prefetch_pods, observed.nodes, now),
        pool=facts.pool,
        advice=tuple(
            Transition("Warning", problem.reason, problem.message)
            for problem in facts.problems
            if problem.reason in ADVICE
        ),
    )


def _base(model: WarmModel, facts: Facts) -> Iterator[Object]:
    account = rbac.service_account(model)
    if account is not None:
        yield account
    yield rbac.role(model)
    yield rbac.role_binding(model)
    yield service.build(model)
    yield disruption_budget.build(model, facts.wanted)


def _blocked(observed: Observed, facts: Facts) -> bool:
    """No template is fixed for a namespace that would refuse the pods, nor of which no container
    could be started, nor before a revision that cannot be read is out of the way: it may have the
    same name."""
    return bool(observed.unreadable) or any(p.reason in _UNFIT for p in facts.problems)


def _render(observed: Observed, model: WarmModel) -> Revision | None:
    """The templates, once it is known what the tags stand for; None while that is asked."""
    answers = observed.resolutions
    if any(answers.get(image) is None for image in Digests(None, None).unresolved(model.spec)):
        return None
    number = 1 + max((s.revision.number for s in observed.revisions), default=0)
    digests = Digests.resolved(model.spec, lambda image: _digest(answers[image]))
    return revision.render(model, digests, observed.pod_security, observed.settings, number)


def _digest(answer: Resolution | None) -> str | None:
    return answer.digest if isinstance(answer, Resolved) else None


def _workloads(
    observed: Observed, model: WarmModel, stored: Revision, facts: Facts
) -> Iterator[Object]:
    yield daemonset.build(model, stored)
    if facts.coming is not None:
        template, strategy = facts.coming.revision, facts.step.strategy
        yield deployment.build(model, template, facts.pool.replicas, strategy)


def _concluded(observed: Observed, model: WarmModel, facts: Facts) -> Iterator[Conclusion]:
    """What is to be written down about revisions, each once."""
    found = {
        each.stored.revision.hash: each
        for each in verdict.conclusions(observed, model, facts.verdicts, facts.now)
    }
    beginning = verdict.beginning(observed)
    if beginning is not None:
        found.setdefault(beginning.stored.revision.hash, beginning)
    return iter(found.values())


def _told(found: Conclusion) -> Iterator[Transition]:
    if found.reason is not None:
        yield Transition("Normal", found.reason, found.message)


def _deletions(
    observed: Observed, removals: Iterable[Removal], kept: Set[str]
) -> Iterator[Deletion]:
    for removal in removals:
        yield Deletion(DAEMON_SET, removal.workload.meta)
    for view in observed.unreadable:
        yield Deletion(CONTROLLER_REVISION, view.meta)
    alive = {observed.target} | kept | set(_live(observed))
    newest = sorted(observed.revisions, key=_age, reverse=True)
    spare = [found for found in newest if found.revision.hash not in alive]
    for found in spare[KEPT_REVISIONS:]:
        yield Deletion(CONTROLLER_REVISION, found.view.meta)


def _age(found: StoredRevision) -> tuple[int, str]:
    return (found.revision.number, found.revision.hash)


def _live(observed: Observed) -> Iterator[str]:
    if observed.deployment is not None:
        yield observed.deployment.template
    for pod in observed.engine_pods:
        yield pod.meta.labels.get(REVISION_LABEL, "")


def _revision_events(
    observed: Observed, model: WarmModel, rendered: Revision, facts: Facts
) -> Iterator[Transition]:
    source = model.spec.model
    yield Transition(
        "Normal",
        reasons.REVISION_CREATED,
        f"revision {rendered.hash}: engine {rendered.digests.engine or 'by tag'}, "
        f"model {rendered.digests.model or ('by tag' if source.image else source.text)}",
    )
    for answer in observed.resolutions.values():
        if isinstance(answer, Unresolved):
            message = f"{answer.message}; the tag is used as written"
            yield Transition("Normal", reasons.DIGEST_UNRESOLVED, message)
    for problem in facts.problems:
        if problem.reason in NOTICES and problem.reason not in ADVICE:
            yield Transition("Warning", problem.reason, problem.message)


def _status(observed: Observed, model: WarmModel, facts: Facts) -> Object:
    previous = observed.view.body.get("status") or {}
    found = conditions.of(facts)
    generation = observed.view.meta.generation
    merged = conditions.merge(found, previous.get("conditions") or [], generation, facts.now)
    digest = observed.present.revision.digests.model if observed.present else None
    resolved = {"source": model.spec.model.text} | ({"digest": digest} if digest else {})
    return body.build(facts, previous, model.name, generation, resolved, merged, observed.account)


def _look_again(observed: Observed, facts: Facts) -> float | None:
    """When something changes of which no watch event tells."""
    times = [RECHECK] if any(p.reason in _UNWATCHED for p in facts.problems) else []
    if _waits_for_turn(observed):
        times.append(RECHECK)
    if facts.reachable < facts.warm_serving:
        times.append(MIN_READY.total_seconds())
    if facts.pool.again is not None:
        times.append(facts.pool.again)
    if observed.prefetch_pods_missing and not times:
        times.append(MISSING)
    found = (*facts.prefetch_pods, *facts.engine_pods)
    if any(mounts.hanging(found, facts.now)):
        times.append(RECHECK)
    dates = [problem.due() for problem in (*facts.problems, *facts.node_problems)]
    dates += [problems.silent_from(pod) for pod in found]
    dates += [mounts.hanging_from(pod) for pod in found]
    dates += [rivalry.due(observed, facts.now), standby.unfilled_at(facts), facts.pool.due]
    dates.append(verdict.due(observed, facts.verdicts, facts.now))
    if facts.coming is not None:
        dates.append(steps.due(observed, facts.coming.revision.hash, facts.now))
    if facts.step.why:
        times.append(steps.RECHECK)
    if observed.account is not None:
        dates.append(report.due(observed.account, observed.view.body.get("status") or {}))
    dates.append(facts.pool.demand.changes_at)
    times += [(due - facts.now).total_seconds() for due in dates if due and due > facts.now]
    return min(times, default=None)


def _waits_for_turn(observed: Observed) -> bool:
    nodes = observed.nodes
    return nodes is not None and bool(nodes.waiting or nodes.refused)


_UNFIT = frozenset({reasons.POD_SECURITY_VIOLATION, reasons.WARMUP_TOO_LARGE})
_UNWATCHED = frozenset(
    {
        reasons.NAME_CONFLICT,
        reasons.CHILD_REJECTED,
        reasons.CHILD_EDITED,
        reasons.WAITING_FOR_DELETION,
        reasons.POD_SECURITY_VIOLATION,
        reasons.POD_CREATION_FAILED,
        reasons.IMAGE_NOT_FOUND,
        # Sticky for a while after the last crash, which ends without an event.
        reasons.ENGINE_CRASH_LOOPING,
        reasons.CONTAINER_CRASH_LOOPING,
    }
)
