"""What a reconcile has seen of one WarmModel: the whole input of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from warmpod.api import InvalidSpec, WarmModel
from warmpod.controller.registry import Resolution
from warmpod.controller.views import ModelView, PodView, RevisionView, WorkloadView
from warmpod.reasons import Reason
from warmpod.resources.revision import Revision
from warmpod.resources.security import PodSecurity
from warmpod.resources.settings import Settings


@dataclass(frozen=True)
class Failure:
    """An object that could not be written."""

    reason: Reason
    object: str
    """`Service models/llama`: kind, namespace and name."""
    message: str


@dataclass(frozen=True)
class Refusal:
    """Pods that a controller was not allowed to create."""

    workload: str
    """`DaemonSet llama-prefetch`."""
    message: str
    since: datetime | None


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
    daemon_set: WorkloadView | None = None
    deployment: WorkloadView | None = None
    prefetch_pods: tuple[PodView, ...] = ()
    engine_pods: tuple[PodView, ...] = ()
    resolutions: Mapping[str, Resolution | None] = field(default_factory=dict)
    """By image as written in the spec; None while the registry is being asked."""
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[Failure, ...] = ()
    """Of this reconcile's own writes."""

    @property
    def prefetch_pods_missing(self) -> bool:
        """Whether the DaemonSet has fewer pods than it wants: something may keep it from it."""
        workload = self.daemon_set
        return (
            workload is not None
            and workload.observed
            and workload.desired > len(self.prefetch_pods)
        )
