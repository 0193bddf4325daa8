"""What the operator keeps of each object: the fields it decides on and nothing else.

Whole objects of a big cluster would not fit into the operator's memory, and most of them (managed
fields, pod specs, templates) is never read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from warmpod.controller.apiserver.kinds import (
    AUTOSCALER,
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    NODE,
    OPTIONAL,
    POD,
    WARM_MODEL,
    Kind,
)
from warmpod.controller.objects import ownership
from warmpod.controller.objects.autoscaler_view import AutoscalerView, autoscaler_view

# All parts of the operator take them from here, with the views.
from warmpod.controller.objects.meta import Key as Key
from warmpod.controller.objects.meta import Meta as Meta
from warmpod.controller.objects.meta import Object as Object
from warmpod.controller.objects.meta import meta_of as meta_of
from warmpod.controller.objects.meta import parse_time as parse_time
from warmpod.controller.objects.node_view import NodeView, node_view
from warmpod.controller.objects.ownership import Edit
from warmpod.controller.objects.pull_view import PullView, pull_view
from warmpod.resources.names import COMPONENT_LABEL, MODEL_LABEL, PREFETCH_LABEL, REVISION_LABEL
from warmpod.startup.pod import PodFacts
from warmpod.startup.pod_reader import facts_of

#: What the API takes as the reason of a condition.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class ConditionView:
    status: str
    reason: str
    message: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Terminated:
    exit_code: int
    reason: str
    message: str
    finished: datetime | None


@dataclass(frozen=True, slots=True)
class ContainerView:
    name: str
    init: bool
    image: str
    ready: bool
    restarts: int
    running_since: datetime | None
    waiting_reason: str
    waiting_message: str
    terminated: Terminated | None
    last: Terminated | None
    """How its previous life ended."""


@dataclass(frozen=True, slots=True)
class PodView:
    meta: Meta
    node: str
    meant_for: str
    """The node that it runs on, or that a DaemonSet made it for."""
    ip: str
    """Empty until it has one."""
    phase: str
    reason: str
    message: str
    conditions: Mapping[str, ConditionView]
    containers: tuple[ContainerView, ...]
    startup: PodFacts
    pull: PullView | None
    """Of prefetch pods only."""

    @property
    def alive(self) -> bool:
        """Whether its containers run or may run, also while it is being deleted."""
        return self.phase not in ("Failed", "Succeeded")

    def is_true(self, condition: str) -> bool:
        found = self.conditions.get(condition)
        return found is not None and found.status == "True"

    def container(self, name: str) -> ContainerView | None:
        return next((c for c in self.containers if c.name == name), None)


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A Deployment or a DaemonSet."""

    meta: Meta
    observed_generation: int
    desired: int
    """Pods that its controller wants: spec.replicas, or the number of eligible nodes."""
    template: str
    """Which of ours its pod template is, by its label: the revision of engine pods, the identity of
    prefetch pods. Empty for the DaemonSet of a version that had only one a model."""
    conditions: Mapping[str, ConditionView]
    edits: tuple[Edit, ...] = ()

    @property
    def observed(self) -> bool:
        """Whether its controller has acted on the newest spec."""
        return self.observed_generation >= self.meta.generation


@dataclass(frozen=True, slots=True)
class RevisionView:
    """A ControllerRevision; its body as JSON text, which takes far less memory than dicts."""

    meta: Meta
    text: str

    def body(self) -> Object:
        decoded: Object = json.loads(self.text)
        return decoded


@dataclass(frozen=True, slots=True)
class ChildView:
    """A small child whose fields are compared directly, since it has no `generation`."""

    meta: Meta
    body: Object
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelView:
    """A WarmModel without managed fields."""

    meta: Meta
    body: Object


View = ModelView | PodView | WorkloadView | RevisionView | ChildView | NodeView | AutoscalerView


def project(kind: Kind, obj: Object) -> View:
    """The view of an object as the API server sent it."""
    meta = meta_of(obj)
    if kind is POD:
        return _pod(meta, obj)
    if kind in (DAEMON_SET, DEPLOYMENT):
        return _workload(kind, meta, obj)
    if kind is CONTROLLER_REVISION:
        return RevisionView(meta, json.dumps(_slim(obj)) if _is_ours(obj) else "")
    if kind is WARM_MODEL:
        return ModelView(meta, _slim(obj))
    if kind is NODE:
        return node_view(meta, obj)
    if kind is AUTOSCALER:
        return autoscaler_view(meta, obj)
    slim = _slim(obj)
    slim.pop("status", None)
    return ChildView(meta, slim, ownership.find(kind, obj))


def owner_of(kind: Kind, view: View) -> Key | None:
    """The WarmModel that an object concerns."""
    return view.target if isinstance(view, AutoscalerView) else owner_key(kind, view.meta)


def owner_key(kind: Kind, meta: Meta) -> Key | None:
    """The WarmModel that an object belongs to, by its label."""
    if kind is WARM_MODEL:
        return meta.key
    if kind in OPTIONAL:
        return None
    model = meta.labels.get(MODEL_LABEL)
    return (meta.namespace, model) if model else None


def conditions_of(status: Mapping[str, Any]) -> dict[str, ConditionView]:
    return {
        condition["type"]: ConditionView(
            condition.get("status", "Unknown"),
            _word(condition.get("reason") or ""),
            condition.get("message") or "",
            parse_time(condition.get("lastTransitionTime")),
        )
        for condition in status.get("conditions") or []
    }


def _word(reason: str) -> str:
    """Pods write their own conditions, with no check of the reason; ours have one, and one bad word
    would have the whole status of a WarmModel refused."""
    return reason if _REASON.fullmatch(reason) else ""


def _is_ours(revision: Object) -> bool:
    """A DaemonSet keeps revisions of its own, with the labels of its pods: never read."""
    owners = revision["metadata"].get("ownerReferences") or []
    return not any(owner.get("kind") == DAEMON_SET.kind for owner in owners)


def _slim(obj: Object) -> Object:
    slim = dict(obj)
    slim["metadata"] = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return slim


def _workload(kind: Kind, meta: Meta, obj: Object) -> WorkloadView:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if kind is DEPLOYMENT:
        desired = spec.get("replicas", 1)
    else:
        desired = status.get("desiredNumberScheduled", 0)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return WorkloadView(
        meta=meta,
        observed_generation=int(status.get("observedGeneration") or 0),
        desired=int(desired),
        template=labels.get(REVISION_LABEL if kind is DEPLOYMENT else PREFETCH_LABEL, ""),
        conditions=conditions_of(status),
        edits=ownership.find(kind, obj),
    )


def _pod(meta: Meta, obj: Object) -> PodView:
    status = obj.get("status") or {}
    containers = [
        _container(container, init=field == "initContainerStatuses")
        for field in ("initContainerStatuses", "containerStatuses")
        for container in status.get(field) or []
    ]
    spec = obj.get("spec") or {}
    node = spec.get("nodeName") or ""
    return PodView(
        meta=meta,
        node=node,
        meant_for=node or _pinned_to(spec),
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        conditions=conditions_of(status),
        containers=tuple(containers),
        startup=facts_of(obj),
        pull=pull_view(spec) if meta.labels.get(COMPONENT_LABEL) == "prefetch" else None,
    )


def _pinned_to(spec: Object) -> str:
    """The node that a DaemonSet made a pod for: it says so in the pod's affinity, by name."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field.get("key") == "metadata.name" and len(field.get("values") or []) == 1:
                return str(field["values"][0])
    return ""


def _container(status: Object, *, init: bool) -> ContainerView:
    state = status.get("state") or {}
    waiting = state.get("waiting") or {}
    return ContainerView(
        name=status["name"],
        init=init,
        image=status.get("image") or "",
        ready=bool(status.get("ready")),
        restarts=int(status.get("restartCount") or 0),
        running_since=parse_time((state.get("running") or {}).get("startedAt")),
        waiting_reason=waiting.get("reason") or "",
        waiting_message=waiting.get("message") or "",
        terminated=_terminated(state.get("terminated")),
        last=_terminated((status.get("lastState") or {}).get("terminated")),
    )


def _terminated(state: Object | None) -> Terminated | None:
    if not state:
        return None
    return Terminated(
        exit_code=int(state.get("exitCode") or 0),
        reason=state.get("reason") or "",
        message=(state.get("message") or "").strip(),
        finished=parse_time(state.get("finishedAt")),
    )
