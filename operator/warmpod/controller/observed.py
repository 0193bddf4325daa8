"""What a reconcile has seen of one WarmModel: the whole input of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from warmpod.api import InvalidSpec, WarmModel
from warmpod.controller.accounting.report import Account
from warmpod.controller.clients.resolver import Resolution
from warmpod.controller.demand import Known
from warmpod.controller.diagnosis.refused import Failure, Refusal
from warmpod.controller.nodes.seen import NodesSeen
from warmpod.controller.nodes.surge import Room
from warmpod.controller.objects.autoscaler_view import AutoscalerView
from warmpod.controller.objects.views import ModelView, PodView, RevisionView, WorkloadView
from warmpod.resources import revision
from warmpod.resources.names import PREFETCH_LABEL, REVISION_LABEL
from warmpod.resources.revision import Revision
from warmpod.resources.security import PodSecurity
from warmpod.resources.settings import Settings


@dataclass(frozen=True)
class StoredRevision:
    """A ControllerRevision that can be read."""

    view: RevisionView
    revision: Revision


@dataclass(frozen=True)
class Observed:
    settings: Settings
    view: ModelView
    model: WarmModel | InvalidSpec
    pod_security: PodSecurity = "privileged"
    revisions: tuple[StoredRevision, ...] = ()
    """Those that this WarmModel owns, and orphans of its name."""
    unreadable: tuple[RevisionView, ...] = ()
    """Revisions with a body that no version of the operator wrote."""
    daemon_sets: tuple[WorkloadView, ...] = ()
    """One a set of weights: the present revision's, and those that earlier ones had."""
    deployment: WorkloadView | None = None
    prefetch_pods: tuple[PodView, ...] = ()
    engine_pods: tuple[PodView, ...] = ()
    resolutions: Mapping[str, Resolution | None] = field(default_factory=dict)
    """By image as written in the spec; None while the registry is being asked."""
    refusals: tuple[Refusal, ...] = ()
    unmounted: Mapping[str, str] = field(default_factory=dict)
    """What kubelets say about volumes that pods lack, by the pod's uid."""
    known: Known = field(default_factory=Known)
    """What the demand depends on besides spec and time."""
    nodes: NodesSeen | None = None
    """None where nodes are not watched."""
    account: Account | None = None
    """None for a spec that cannot be read."""
    autoscalers: tuple[AutoscalerView, ...] = ()
    """Those that scale it, or its Deployment; none where autoscalers are not watched."""
    failures: tuple[Failure, ...] = ()
    """Of this reconcile's own writes."""
    room: Room | None = None
    """For one pod more than is asked for; None while none is to be added, and where nobody may
    ask."""
    failing: Mapping[str, datetime] = field(default_factory=dict)
    """Since when engine pods have had what keeps them from being warm, by the pod's uid."""
    hardware: Mapping[str, str] = field(default_factory=dict)
    """Which accelerators the nodes of engine pods have, as far as they tell."""
    idle: Mapping[str, datetime] = field(default_factory=dict)
    """Since when engine pods have no requests, by uid, of those that were asked."""

    @cached_property
    def target(self) -> str:
        """Hash of what the spec asks for; empty where the spec cannot be read."""
        if isinstance(self.model, InvalidSpec):
            return ""
        return revision.compute_hash(self.model.spec)

    def stored(self, revision_hash: str) -> StoredRevision | None:
        return next((s for s in self.revisions if s.revision.hash == revision_hash), None)

    @cached_property
    def present(self) -> StoredRevision | None:
        """The revision that the spec asks for, once it is stored."""
        return self.stored(self.target)

    @property
    def weights(self) -> str | None:
        """Which weights the present revision has, by the identity of their DaemonSet."""
        return self.present.revision.prefetch_hash if self.present else None

    @property
    def daemon_set(self) -> WorkloadView | None:
        """The present revision's."""
        return next((s for s in self.daemon_sets if s.template == self.weights), None)

    def weights_of(self, engine: PodView) -> str | None:
        """Which weights an engine pod reads; None where nobody can tell any more."""
        if label := engine.meta.labels.get(PREFETCH_LABEL):
            return label
        found = self.stored(engine.meta.labels.get(REVISION_LABEL, ""))
        return found.revision.prefetch_hash if found else None

    def prefetch_pods_of(self, weights: str | None) -> tuple[PodView, ...]:
        """Those that are there to stay."""
        return tuple(
            pod
            for pod in self.prefetch_pods
            if pod.meta.labels.get(PREFETCH_LABEL) == weights and not pod.meta.deleting
        )

    @property
    def prefetch_pods_present(self) -> tuple[PodView, ...]:
        """Of the weights that the spec asks for."""
        return self.prefetch_pods_of(self.weights)

    @property
    def engine_pods_present(self) -> tuple[PodView, ...]:
        """Of the revision that the spec asks for, and there to stay."""
        return tuple(
            pod
            for pod in self.engine_pods
            if pod.meta.labels.get(REVISION_LABEL) == self.target and not pod.meta.deleting
        )

    @property
    def lost_images(self) -> frozenset[str]:
        """Prefetch pods whose images were taken from their nodes, by uid."""
        return frozenset(self.nodes.removed) if self.nodes else frozenset()

    @property
    def prefetch_pods_missing(self) -> bool:
        """Whether the DaemonSet has fewer pods than it wants: something may keep it from it."""
        workload = self.daemon_set
        return (
            workload is not None
            and workload.observed
            and workload.desired > len(self.prefetch_pods_of(self.weights))
        )
