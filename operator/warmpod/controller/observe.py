"""Gathers what a plan is made from: the cache, and the little that no watch tells."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from warmpod.api import InvalidSpec, WarmModel
from warmpod.controller import demand
from warmpod.controller.accounting.accounts import Accounts
from warmpod.controller.apiserver.kinds import (
    AUTOSCALER,
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    EVENT,
    NAMESPACE,
    POD,
    Kind,
)
from warmpod.controller.apiserver.kube import ApiError, Kube, Object
from warmpod.controller.clients.resolver import Resolution, Resolver
from warmpod.controller.demand import Outlook
from warmpod.controller.diagnosis import mounts
from warmpod.controller.diagnosis.mount_events import MountEvents
from warmpod.controller.diagnosis.refused import Failure, Refusal
from warmpod.controller.facts import gather
from warmpod.controller.nodes import placement, surge
from warmpod.controller.nodes.fleet import Fleet
from warmpod.controller.nodes.placement import Placement
from warmpod.controller.nodes.surge import Room
from warmpod.controller.nodes.surge_nodes import SurgeNodes
from warmpod.controller.objects.autoscaler_view import AutoscalerView
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.meta import event_time
from warmpod.controller.objects.parsed import Parsed
from warmpod.controller.objects.views import (
    Key,
    Meta,
    ModelView,
    PodView,
    RevisionView,
    WorkloadView,
    parse_time,
)
from warmpod.controller.observed import Observed, StoredRevision
from warmpod.controller.pool.idle import Idle
from warmpod.controller.rollouts.baseline import hardware
from warmpod.controller.rollouts.failures import FailureWatch
from warmpod.controller.rollouts.steps import under_way
from warmpod.resources import names, revision
from warmpod.resources.digests import Digests
from warmpod.resources.revision import InvalidRevision
from warmpod.resources.security import PodSecurity, level_of
from warmpod.resources.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds for which a namespace's Pod Security level is believed.
LEVEL_SECONDS = 10.0
#: An older refusal may be about a DaemonSet that was corrected since.
REFUSAL_AGE = timedelta(minutes=10)


class Observer:
    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        parsed: Parsed,
        resolver: Resolver,
        fleet: Fleet,
        accounts: Accounts,
        settings: Settings,
        idle: Idle,
        *,
        outlook: Callable[[Key], Outlook | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outlook = outlook
        self._kube = kube
        self._cache = cache
        self._resolver = resolver
        self._fleet = fleet
        self._accounts = accounts
        self._settings = settings
        self._idle = idle
        self._clock = clock
        self._mount_events = MountEvents(kube, clock)
        self._surge_nodes = SurgeNodes(kube, clock=clock)
        self._failures = FailureWatch()
        self._levels: dict[str, tuple[float, PodSecurity]] = {}
        self._parsed = parsed

    def forget(self, key: Key) -> None:
        self._parsed.forget(key)
        self._failures.forget(key)
        self._fleet.forget(key)
        self._idle.keep(key, ())
        self._accounts.forget(key)

    def look(self, view: ModelView, failures: tuple[Failure, ...]) -> Observed:
        """What decides who serves, and no more, since whoever scales out waits for it: nothing is
        asked for here, and revisions are read only where pods have several."""
        key = view.meta.key
        pods = [pod for pod in self._cache.owned(POD, key) if isinstance(pod, PodView)]
        engines = _of(pods, "engine")
        several = len({pod.meta.labels.get(names.REVISION_LABEL) for pod in engines}) > 1
        return Observed(
            settings=self._settings,
            view=view,
            model=self._parsed.of(view),
            revisions=self._revisions(view)[0] if several else (),
            daemon_sets=tuple(self._workloads(DAEMON_SET, view)),
            deployment=next(self._workloads(DEPLOYMENT, view), None),
            prefetch_pods=_of(pods, "prefetch"),
            engine_pods=engines,
            known=replace(
                demand.measured(view.body.get("status") or {}), outlook=self._outlook(key)
            ),
            failures=failures,
            idle=self._idle.of(key),
            autoscalers=tuple(self._autoscalers(key)),
        )

    async def complete(self, observed: Observed) -> Observed:
        """With everything else, also what must be asked for; that is only asked for when it can
        matter."""
        key, model = observed.view.meta.key, observed.model
        stored, unreadable = self._revisions(observed.view)
        observed = replace(observed, revisions=stored, unreadable=unreadable)
        nodes = self._fleet.look(key, _placement(observed), observed.prefetch_pods)
        observed = replace(observed, nodes=nodes)
        if isinstance(model, InvalidSpec) or model.deleting:
            return observed
        observed = replace(observed, account=self._accounts.look(observed.view, model))
        found = observed.present
        level: PodSecurity = "privileged"
        if found is None or observed.daemon_set is None:
            level = await self._level(model.namespace)
        refusals: tuple[Refusal, ...] = ()
        if observed.prefetch_pods_missing and observed.daemon_set is not None:
            refusals = await self._refusals(observed.daemon_set)
        return replace(
            observed,
            pod_security=level,
            resolutions=self._resolutions(model, found),
            refusals=refusals,
            unmounted=await self._unmounted(observed),
            room=await self._room(observed, model),
            failing=self._failures.look(
                observed.view.meta.key, observed.engine_pods, datetime.now(UTC)
            ),
            hardware=self._hardware(observed),
        )

    async def _room(self, observed: Observed, model: WarmModel) -> Room | None:
        """For one pod more than is asked for, which matters while pods are replaced only."""
        live, nodes = observed.deployment, observed.nodes
        if live is None or nodes is None or not under_way(observed, observed.target):
            return None
        now = datetime.now(UTC)
        coming = gather(observed, model, now).coming
        if coming is None or not under_way(observed, coming.revision.hash):
            return None
        found = [self._fleet.hosts.get(name) for name in nodes.eligible]
        return await self._surge_nodes.room(
            observed.view.meta.key,
            surge.requests_of(coming.revision.engine_template["spec"]),
            1 + max(live.desired, demand.of(model, now, observed.known).pods),
            [node for node in found if node is not None],
            {pod.node for pod in observed.engine_pods},
        )

    def _hardware(self, observed: Observed) -> Mapping[str, str]:
        found = {pod.node: self._fleet.hosts.get(pod.node) for pod in observed.engine_pods}
        return {name: hardware(node.meta.labels) for name, node in found.items() if node}

    def _workloads(self, kind: Kind, view: ModelView) -> Iterator[WorkloadView]:
        """Only those that are ours: one in the way is the applier's business."""
        for found in self._cache.owned(kind, view.meta.key):
            if isinstance(found, WorkloadView) and _is_of(found.meta, view.meta):
                yield found

    def _autoscalers(self, key: Key) -> Iterator[AutoscalerView]:
        for found in self._cache.owned(AUTOSCALER, key):
            if isinstance(found, AutoscalerView) and not found.meta.deleting:
                yield found

    def _revisions(
        self, view: ModelView
    ) -> tuple[tuple[StoredRevision, ...], tuple[RevisionView, ...]]:
        stored, unreadable = [], []
        for found in self._cache.owned(CONTROLLER_REVISION, view.meta.key):
            if not isinstance(found, RevisionView) or not _is_of(found.meta, view.meta):
                continue
            if found.meta.deleting:
                continue
            try:
                stored.append(StoredRevision(found, revision.parse(found.body())))
            except InvalidRevision as error:
                logger.warning("%s", error)
                unreadable.append(found)
        return tuple(stored), tuple(unreadable)

    def _resolutions(
        self, model: WarmModel, stored: StoredRevision | None
    ) -> dict[str, Resolution | None]:
        """Asked before a revision is rendered, and after it only about what had no answer."""
        known = stored.revision.digests if stored else Digests(None, None)
        key = (model.namespace, model.name)
        return {image: self._resolver.lookup(image, key) for image in known.unresolved(model.spec)}

    async def _level(self, namespace: str) -> PodSecurity:
        known = self._levels.get(namespace)
        if known is not None and self._clock() < known[0]:
            return known[1]
        level = await self._ask_level(namespace)
        self._levels[namespace] = (self._clock() + LEVEL_SECONDS, level)
        return level

    async def _ask_level(self, namespace: str) -> PodSecurity:
        try:
            found = await self._kube.get(NAMESPACE, None, namespace)
        except ApiError as error:
            if error.status != 403:
                raise
            # With rights in single namespaces only, the API server's own refusal has to do.
            return "privileged"
        labels = found["metadata"].get("labels") or {} if found else {}
        return level_of(labels)

    async def _unmounted(self, observed: Observed) -> Mapping[str, str]:
        pods = (*observed.prefetch_pods_present, *observed.engine_pods_present)
        if not any(mounts.hanging(pods, datetime.now(UTC))):
            return {}
        return await self._mount_events.failures(observed.view.meta.namespace)

    async def _refusals(self, workload: WorkloadView) -> tuple[Refusal, ...]:
        """A DaemonSet's status does not tell why pods are missing; its events do."""
        meta = workload.meta
        fields = f"involvedObject.uid={meta.uid},reason=FailedCreate"
        newest: Object | None = None
        async for page, _ in self._kube.list_pages(EVENT, meta.namespace, fields=fields):
            for event in page:
                if newest is None or event_time(event) > event_time(newest):
                    newest = event
        if newest is None or datetime.now(UTC) - event_time(newest) > REFUSAL_AGE:
            return ()
        workload_name = f"DaemonSet {meta.name}"
        since = parse_time(newest.get("firstTimestamp"))
        return (Refusal(workload_name, newest.get("message") or "", since),)


def _placement(observed: Observed) -> Placement | None:
    """Of the engines that the spec asks for; while its revision is not there, of those before."""
    newest = max(observed.revisions, key=lambda s: s.revision.number, default=None)
    found = observed.present or newest
    return placement.of_template(found.revision.engine_template) if found else None


def _is_of(child: Meta, model: Meta) -> bool:
    """Ours, or an orphan: after `kubectl delete --cascade=orphan` and a new creation of the
    WarmModel its pods shall go on running, so its revisions must go on counting."""
    return child.owner_uid in ("", model.uid)


def _of(pods: list[PodView], component: names.Component) -> tuple[PodView, ...]:
    return tuple(p for p in pods if p.meta.labels.get(names.COMPONENT_LABEL) == component)
