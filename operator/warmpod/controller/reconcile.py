"""Brings one WarmModel to what its spec asks for: observe, plan, apply, report."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeGuard

from warmpod import reasons
from warmpod.controller import plan as planning
from warmpod.controller.apiserver.kinds import POD, WARM_MODEL
from warmpod.controller.apiserver.kube import ApiError, Kube, Object, Unreachable
from warmpod.controller.apply import Applier, NamespaceTerminating
from warmpod.controller.diagnosis.refused import Failure
from warmpod.controller.forecasting.keeper import Forecasts
from warmpod.controller.nodes.actions import NodeActions
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.engine_pods import is_warm
from warmpod.controller.objects.views import Key, ModelView, PodView, View
from warmpod.controller.observe import Observer
from warmpod.controller.observed import Observed
from warmpod.controller.plan import Plan
from warmpod.controller.pool import telling
from warmpod.controller.pool.calls import Calls
from warmpod.controller.pool.roles import Assigned, Roles
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.controller.status import startups
from warmpod.controller.status.transitions import transitions
from warmpod.controller.telling.gates import Gates
from warmpod.controller.telling.metrics import Metrics
from warmpod.controller.telling.recorder import Recorder
from warmpod.controller.telling.residency import Residency
from warmpod.controller.telling.transition import Transition
from warmpod.controller.triggers import Triggers

logger = logging.getLogger(__name__)

#: Rounds of plan and apply in one reconcile. Two are needed for a new revision (store it, then use
#: it) and one more to see that nothing is left; what is not settled then is taken up again.
ROUNDS = 4
#: Seconds until an unsettled WarmModel is taken up again.
UNSETTLED_SECONDS = 1.0


class Reconciler:
    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        observer: Observer,
        roles: Roles,
        calls: Calls,
        applier: Applier,
        actions: NodeActions,
        recorder: Recorder,
        metrics: Metrics,
        gates: Gates,
        residency: Residency,
        triggers: Triggers,
        forecasts: Forecasts,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._observer = observer
        self._roles = roles
        self._calls = calls
        self._applier = applier
        self._actions = actions
        self._recorder = recorder
        self._metrics = metrics
        self._gates = gates
        self._residency = residency
        self._triggers = triggers
        self._forecasts = forecasts
        self._now = now
        #: What the last plan of each WarmModel advised.
        self._advised: dict[Key, tuple[Transition, ...]] = {}

    async def __call__(self, key: Key) -> float | None:
        """Returns the seconds after which to look again, or None."""
        view = self._cache.model(key)
        if view is None:
            self._observer.forget(key)
            self._applier.forget(key)
            self._gates.take(key)
            self._residency.forget(key)
            self._triggers.forget(key)
            self._forecasts.forget(key)
            self._metrics.failed_nodes.forget(key)
            self._advised.pop(key, None)
            return None
        try:
            return await self._reconcile(view)
        except NamespaceTerminating:
            logger.info("%s/%s: the namespace is being deleted", *key)
            return None
        except (ApiError, Unreachable, RetryLater):
            raise
        except Exception as error:
            # Its status stays as it was, so nothing else would tell its owner.
            await self._recorder.record(view.meta, _broken(error))
            raise

    async def _reconcile(self, view: ModelView) -> float | None:
        key = view.meta.key
        plan, events, settled = await self._settle(view)
        self._metrics.failed_nodes.replace(key, plan.failed_nodes)
        if plan.status is not None:
            status, told = self._told(view, plan.status)
            events += [*await self._report(view, status), *told]
        advised, self._advised[key] = self._advised.get(key, ()), plan.advice
        events += [advice for advice in plan.advice if advice not in advised]
        events += self._gates.take(key)
        events += self._residency.take(key)
        for event in events:
            await self._recorder.record(view.meta, event)
        if not settled:
            return UNSETTLED_SECONDS
        times = (plan.requeue_after, self._residency.due(key))
        return min((seconds for seconds in times if seconds is not None), default=None)

    async def _settle(self, view: ModelView) -> tuple[Plan, list[Transition], bool]:
        failures: tuple[Failure, ...] = ()
        events: list[Transition] = []
        for _ in range(ROUNDS):
            observed, assigned = await self._assign_roles(view, failures, events)
            plan = planning.make(await self._observer.complete(observed), self._now())
            if plan.pool is not None:
                self._calls.start(view.meta.key, plan.pool)
            outcome = await self._applier.apply(view.meta.key, view.meta.uid, plan.apply)
            for deletion in plan.delete:
                await self._delete(deletion)
            await self._actions.apply(plan.pods)
            events += (*plan.events, *outcome.events)
            failed = (*assigned.failures, *outcome.failures)
            wrote = outcome.wrote or bool(plan.pods) or _is_open(plan, assigned)
            settled = not wrote and failed == failures
            failures = failed
            if settled:
                break
        return plan, events, settled

    async def _assign_roles(
        self, view: ModelView, failures: tuple[Failure, ...], events: list[Transition]
    ) -> tuple[Observed, Assigned]:
        """Ahead of everything else, and of every question to the API server: that is what a
        scale-out waits for. Returns what is observed after it; what is told of it goes to the
        events."""
        observed = self._observer.look(view, failures)
        changes, serving = planning.roles(observed, self._now())
        if not changes:
            return observed, Assigned()
        assigned = await self._roles.apply(changes)
        events += telling.events(assigned.done, serving)
        return self._observer.look(view, failures), assigned

    def _told(self, view: ModelView, status: Object) -> tuple[Object, list[Transition]]:
        """The status with what is not computed from what was observed."""
        key = view.meta.key
        if forecast := self._forecasts.status(key):
            status = status | {"forecast": forecast}
        warm = [pod for pod in self._cache.owned(POD, key) if _may_warm(pod)]
        outcome = self._triggers.look(view, status.get("warmNow") or {}, warm)
        if outcome is None:
            return status, []
        return status | {"warmNow": outcome.status()}, [outcome.event()]

    async def _delete(self, deletion: planning.Deletion) -> None:
        meta = deletion.meta
        self._metrics.writes.labels(deletion.kind.kind).inc()
        await self._kube.delete(deletion.kind, meta.namespace, meta.name, uid=meta.uid)
        self._cache.drop(deletion.kind, meta)

    async def _report(self, view: ModelView, status: Object) -> list[Transition]:
        """Writes the status if it changed; returns what is worth an event."""
        previous = view.body.get("status") or {}
        if status == previous:
            return []
        body = {
            "apiVersion": WARM_MODEL.api_version,
            "kind": WARM_MODEL.kind,
            "metadata": {
                "namespace": view.meta.namespace,
                "name": view.meta.name,
                "uid": view.meta.uid,
            },
            "status": status,
        }
        self._metrics.writes.labels(WARM_MODEL.kind).inc()
        try:
            answer = await self._kube.apply(body, subresource="status")
        except ApiError as error:
            if error.status in (404, 409):
                return []  # gone, or replaced by another of the same name: an event tells us
            if error.retry_after is not None:
                raise RetryLater(error.retry_after, str(error)) from error
            raise
        self._cache.upsert(WARM_MODEL, answer)
        new = startups.new(previous, status, self._now())
        for startup in new:
            self._metrics.startups.observe(startup)
        told = [event for startup in new for event in startups.events(startup)]
        return [*transitions(previous, status), *told]


def _broken(error: Exception) -> Transition:
    """Without the error's text, which may differ each time and make another event of it."""
    message = (
        f"the operator cannot reconcile this WarmModel: {type(error).__name__}, which it does not "
        "expect. What runs goes on as it is; the operator's log has the rest"
    )
    return Transition("Warning", reasons.RECONCILE_FAILED, message)


def _is_open(plan: Plan, assigned: Assigned) -> bool:
    """Whether roles are left to change, because pods were not what they were thought to be."""
    return plan.pool is not None and bool(plan.pool.changes) and not assigned.failures


def _may_warm(pod: View) -> TypeGuard[PodView]:
    """Of any revision: what serves shall be warm."""
    return isinstance(pod, PodView) and is_warm(pod) and not pod.meta.deleting
