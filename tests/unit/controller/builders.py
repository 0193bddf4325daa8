"""Short ways to say what the API server would have: WarmModels, workloads, pods.

Everything is built as the API server sends it and goes through the same projection as in the
operator, so the tests see what the operator would see.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from warmpod.api import InvalidSpec, WarmModel
from warmpod.controller.kinds import CONTROLLER_REVISION, DAEMON_SET, DEPLOYMENT, POD, WARM_MODEL
from warmpod.controller.observed import Failure, Observed, Refusal, StoredRevision
from warmpod.controller.plan import Plan, make
from warmpod.controller.registry import Resolution, Resolved
from warmpod.controller.views import ModelView, PodView, RevisionView, WorkloadView, project
from warmpod.protocol import RESIDENT_CONDITION, TIMELINE_CONDITION, WARM_CONDITION
from warmpod.resources import revision
from warmpod.resources.names import (
    COMPONENT_LABEL,
    MANAGED_BY_LABEL,
    MODEL_LABEL,
    PREFETCH_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
)
from warmpod.resources.revision import Digests, Revision
from warmpod.resources.security import PodSecurity
from warmpod.resources.settings import Settings

Object = dict[str, Any]

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
NAMESPACE = "models"
NAME = "llama"
UID = "uid-llama"
ENGINE_IMAGE = "registry.example.com/vllm:v1"
MODEL_IMAGE = "registry.example.com/llama:1.0"
ENGINE_DIGEST = "sha256:" + "e" * 64
MODEL_DIGEST = "sha256:" + "d" * 64
SETTINGS = Settings(operator_image="registry.example.com/operator:v1")


def ago(**delta: float) -> str:
    return (NOW - timedelta(**delta)).strftime("%Y-%m-%dT%H:%M:%SZ")


def warm_model(*, status: Object | None = None, generation: int = 1, **spec: Any) -> Object:
    whole: Object = {
        "replicas": 1,
        "model": {"image": MODEL_IMAGE},
        "engine": {"image": ENGINE_IMAGE},
    }
    for name, value in spec.items():
        whole[name] = {**whole[name], **value} if isinstance(whole.get(name), dict) else value
    obj: Object = {
        "apiVersion": "warmpod.io/v1alpha1",
        "kind": "WarmModel",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "uid": UID,
            "generation": generation,
            "resourceVersion": "10",
            "creationTimestamp": ago(minutes=5),
        },
        "spec": whole,
    }
    if status is not None:
        obj["status"] = status
    return obj


def owned(name: str, *, uid: str = "", version: int = 20, **labels: str) -> Object:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": ago(minutes=5),
        "labels": {MANAGED_BY_LABEL: "warmpod", MODEL_LABEL: NAME, **labels},
        "ownerReferences": [
            {
                "apiVersion": "warmpod.io/v1alpha1",
                "kind": "WarmModel",
                "name": NAME,
                "uid": UID,
                "controller": True,
            }
        ],
    }


@dataclass(frozen=True)
class PodWrapper:
    """A pod, changed step by step: `engine("a").running().warm()`."""

    name: str
    component: str
    revision: str = ""
    """Of a prefetch pod the identity of its template."""
    node: str = "node-1"
    phase: str = "Pending"
    created: str = ago(minutes=2)
    deleting: bool = False
    reason: str = ""
    message: str = ""
    conditions: dict[str, Object] = field(default_factory=dict)
    containers: dict[str, Object] = field(default_factory=dict)
    init_containers: dict[str, Object] = field(default_factory=dict)

    def of(self, revision_hash: str) -> PodWrapper:
        return replace(self, revision=revision_hash)

    def on(self, node: str) -> PodWrapper:
        return replace(self, node=node)

    def condition(
        self, name: str, status: str, reason: str = "", message: str = "", since: str = ""
    ) -> PodWrapper:
        new = {
            "type": name,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or ago(minutes=1),
        }
        return replace(self, conditions={**self.conditions, name: new})

    def container(self, name: str, *, init: bool = False, **status: Any) -> PodWrapper:
        new = {"name": name, "image": "image", "ready": False, "restartCount": 0, **status}
        if init:
            return replace(self, init_containers={**self.init_containers, name: new})
        return replace(self, containers={**self.containers, name: new})

    def waiting(self, name: str, reason: str, message: str = "", **more: Any) -> PodWrapper:
        state = {"waiting": {"reason": reason, "message": message}}
        return self.container(name, state=state, **more)

    def running(self, name: str = "") -> PodWrapper:
        name = name or ("agent" if self.component == "prefetch" else "engine")
        state = {"running": {"startedAt": ago(minutes=1)}}
        return replace(self, phase="Running").container(name, state=state, ready=True)

    def terminated(
        self, name: str, code: int, reason: str = "Error", message: str = "", **more: Any
    ) -> PodWrapper:
        ended = {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "finishedAt": more.pop("finished", ago(seconds=20)),
        }
        return self.container(name, state={"terminated": ended}, **more)

    def crash_looping(
        self, name: str, code: int = 1, message: str = "", reason: str = "Error", **more: Any
    ) -> PodWrapper:
        ended = {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "finishedAt": ago(seconds=20),
        }
        words = f"back-off 20s restarting failed container={name}"
        return self.waiting(
            name,
            "CrashLoopBackOff",
            words,
            restartCount=2,
            lastState={"terminated": ended},
            **more,
        )

    def unschedulable(self, message: str, since: str = "") -> PodWrapper:
        return self.on("").condition("PodScheduled", "False", "Unschedulable", message, since)

    def ready(self) -> PodWrapper:
        return self.condition("Ready", "True")

    def warm(self) -> PodWrapper:
        return self.running().condition(WARM_CONDITION, "True", "Warm").ready()

    def not_warm(self, reason: str, message: str = "") -> PodWrapper:
        return self.running().condition(WARM_CONDITION, "False", reason, message)

    def resident(self, reason: str = "Resident") -> PodWrapper:
        return self.running().condition(RESIDENT_CONDITION, "True", reason).ready()

    def not_resident(self, reason: str, message: str = "") -> PodWrapper:
        return self.running().condition(RESIDENT_CONDITION, "False", reason, message)

    def timeline(self, **fields: Any) -> PodWrapper:
        message = json.dumps(fields)
        return self.condition(TIMELINE_CONDITION, "True", "Started", message)

    def gone(self) -> PodWrapper:
        return replace(self, deleting=True)

    def failed(self, reason: str, message: str = "", created: str = "") -> PodWrapper:
        return replace(
            self,
            phase="Failed",
            reason=reason,
            message=message,
            created=created or self.created,
        )

    def body(self) -> Object:
        labels = {COMPONENT_LABEL: self.component}
        if self.component == "engine":
            labels |= {ROLE_LABEL: "serving", REVISION_LABEL: self.revision}
        else:
            labels[PREFETCH_LABEL] = self.revision
        meta = owned(self.name, **labels)
        meta["creationTimestamp"] = self.created
        if self.deleting:
            meta["deletionTimestamp"] = ago(seconds=1)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"nodeName": self.node} if self.node else {},
            "status": {
                "phase": self.phase,
                "reason": self.reason,
                "message": self.message,
                "conditions": list(self.conditions.values()),
                "containerStatuses": list(self.containers.values()),
                "initContainerStatuses": list(self.init_containers.values()),
            },
        }

    def view(self) -> PodView:
        found = project(POD, self.body())
        assert isinstance(found, PodView)
        return found


def engine(name: str = "llama-0") -> PodWrapper:
    return PodWrapper(name, "engine")


def prefetch(name: str = "llama-prefetch-0") -> PodWrapper:
    return PodWrapper(name, "prefetch")


@dataclass(frozen=True)
class World:
    """One WarmModel and what there is of it. `plan()` is what the operator would do."""

    model: Object = field(default_factory=warm_model)
    stored: tuple[Revision, ...] = ()
    unreadable: tuple[str, ...] = ()
    daemon_set: WorkloadView | None = None
    deployment: WorkloadView | None = None
    prefetch_pods: tuple[PodView, ...] = ()
    engine_pods: tuple[PodView, ...] = ()
    resolutions: dict[str, Resolution | None] = field(
        default_factory=lambda: {
            ENGINE_IMAGE: Resolved(ENGINE_DIGEST),
            MODEL_IMAGE: Resolved(MODEL_DIGEST),
        }
    )
    pod_security: PodSecurity = "privileged"
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def parsed(self) -> WarmModel:
        return WarmModel.parse(self.model)

    @property
    def hash(self) -> str:
        return revision.compute_hash(self.parsed.spec)

    @property
    def identity(self) -> str:
        """Of the prefetch pods of the present spec."""
        return self._rendered().prefetch_hash

    def change(self, **spec: Any) -> World:
        """The spec is edited; everything else is as it was."""
        model = deepcopy(self.model)
        for name, value in spec.items():
            old = model["spec"].get(name)
            model["spec"][name] = {**old, **value} if isinstance(old, dict) else value
        model["metadata"]["generation"] += 1
        return replace(self, model=model)

    def store(self, *, number: int = 1, digests: Digests | None = None) -> World:
        """The present spec's revision is in a ControllerRevision."""
        return replace(self, stored=(*self.stored, self._rendered(number, digests)))

    def _rendered(self, number: int = 1, digests: Digests | None = None) -> Revision:
        known = digests or Digests(ENGINE_DIGEST, MODEL_DIGEST)
        return revision.render(self.parsed, known, "privileged", SETTINGS, number)

    def prefetching(self, nodes: int, *pods: PodWrapper, of: str = "") -> World:
        """The DaemonSet of the present revision exists and wants that many pods."""
        workload = daemon_set(of or self.identity, nodes)
        views = self._views(pods, self.identity)
        return replace(self, daemon_set=workload, prefetch_pods=views)

    def deployed(
        self,
        *pods: PodWrapper,
        replicas: int = 1,
        of: str = "",
        conditions: Iterable[Object] = (),
    ) -> World:
        workload = deployment(of or self.hash, replicas, conditions)
        return replace(self, deployment=workload, engine_pods=self._views(pods, self.hash))

    def _views(self, pods: Iterable[PodWrapper], default: str) -> tuple[PodView, ...]:
        return tuple((pod if pod.revision else pod.of(default)).view() for pod in pods)

    def observed(self) -> Observed:
        view = project(WARM_MODEL, self.model)
        assert isinstance(view, ModelView)
        model: WarmModel | InvalidSpec
        try:
            model = WarmModel.parse(self.model)
        except InvalidSpec as invalid:
            model = invalid
        return Observed(
            settings=SETTINGS,
            view=view,
            model=model,
            pod_security=self.pod_security,
            revisions=tuple(self._stored(found) for found in self.stored),
            unreadable=tuple(revision_view(name) for name in self.unreadable),
            daemon_set=self.daemon_set,
            deployment=self.deployment,
            prefetch_pods=self.prefetch_pods,
            engine_pods=self.engine_pods,
            resolutions=self.resolutions,
            refusals=self.refusals,
            failures=self.failures,
        )

    def _stored(self, found: Revision) -> StoredRevision:
        return StoredRevision(revision_view(found.name), found)

    def plan(self, now: datetime = NOW) -> Plan:
        return make(self.observed(), now)

    def conditions(self, now: datetime = NOW) -> dict[str, Object]:
        status = self.plan(now).status
        assert status is not None
        return {condition["type"]: condition for condition in status["conditions"]}


def revision_view(name: str) -> RevisionView:
    found = project(
        CONTROLLER_REVISION,
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": owned(name),
        },
    )
    assert isinstance(found, RevisionView)
    return found


def daemon_set(identity: str, nodes: int, *, observed: int = 1) -> WorkloadView:
    found = project(
        DAEMON_SET,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": owned(f"{NAME}-prefetch-{identity}"),
            "spec": {"template": {"metadata": {"labels": {PREFETCH_LABEL: identity}}}},
            "status": {"observedGeneration": observed, "desiredNumberScheduled": nodes},
        },
    )
    assert isinstance(found, WorkloadView)
    return found


def deployment(
    revision_hash: str, replicas: int, conditions: Iterable[Object] = ()
) -> WorkloadView:
    found = project(
        DEPLOYMENT,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": owned(NAME),
            "spec": {
                "replicas": replicas,
                "template": {"metadata": {"labels": {REVISION_LABEL: revision_hash}}},
            },
            "status": {"observedGeneration": 1, "conditions": list(conditions)},
        },
    )
    assert isinstance(found, WorkloadView)
    return found


def applied(plan: Plan, kind: str) -> Object | None:
    """The one object of that kind in the plan."""
    found = [obj for obj in plan.apply if obj["kind"] == kind]
    assert len(found) <= 1
    return found[0] if found else None
