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
from warmpod.controller.apiserver.kinds import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    NODE,
    POD,
    WARM_MODEL,
)
from warmpod.controller.clients.resolver import Resolution, Resolved
from warmpod.controller.diagnosis.refused import Failure, Refusal
from warmpod.controller.nodes.seen import NodesSeen
from warmpod.controller.nodes.surge import Room
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import ModelView, PodView, RevisionView, WorkloadView, project
from warmpod.controller.observed import Observed, StoredRevision
from warmpod.controller.plan import Plan, make
from warmpod.controller.rollouts.baseline import Baseline
from warmpod.controller.rollouts.marking import Marks
from warmpod.protocol import GROUP, RESIDENT_CONDITION, TIMELINE_CONDITION, WARM_CONDITION
from warmpod.resources import revision
from warmpod.resources.names import (
    COMPONENT_LABEL,
    MANAGED_BY_LABEL,
    MODEL_LABEL,
    PREFETCH_GATE,
    PREFETCH_LABEL,
    RESIDENT_LABEL,
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
OTHER_IMAGE = "registry.example.com/llama:2.0"
ENGINE_DIGEST = "sha256:" + "e" * 64
MODEL_DIGEST = "sha256:" + "d" * 64
OTHER_DIGEST = "sha256:" + "c" * 64
DIGESTS = {
    ENGINE_IMAGE: ENGINE_DIGEST,
    MODEL_IMAGE: MODEL_DIGEST,
    OTHER_IMAGE: OTHER_DIGEST,
}
SETTINGS = Settings(operator_image="registry.example.com/operator:v1")


#: Of a revision whose first pod was warm long ago.
ACCEPTED = Marks(baseline=Baseline("llama-old", "", {}))


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
    template: str = ""
    """The revision of an engine pod, the identity of a prefetch pod."""
    node: str = "node-1"
    pinned_to: str = ""
    gated: bool = False
    images: tuple[str, ...] = ()
    memory: str = "200Mi"
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    role: str = "serving"
    phase: str = "Pending"
    created: str = ago(minutes=2)
    deleting: bool = False
    reason: str = ""
    message: str = ""
    conditions: dict[str, Object] = field(default_factory=dict)
    containers: dict[str, Object] = field(default_factory=dict)
    init_containers: dict[str, Object] = field(default_factory=dict)

    def of(self, template: str) -> PodWrapper:
        return replace(self, template=template)

    def standby(self, **annotations: str) -> PodWrapper:
        """Held back; annotations are written as `demoted_at=…`."""
        return replace(self, role="standby").annotated(**annotations)

    def annotated(self, **annotations: str) -> PodWrapper:
        new = {f"{GROUP}/{name.replace('_', '-')}": text for name, text in annotations.items()}
        return replace(self, annotations=self.annotations | new)

    def asleep(self) -> PodWrapper:
        return self.not_warm("Asleep").condition("Ready", "False")

    def on(self, node: str) -> PodWrapper:
        return replace(self, node=node)

    def waiting_for(self, node: str) -> PodWrapper:
        """Made by a DaemonSet for a node, and not scheduled yet."""
        return replace(self, node="", pinned_to=node)

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

    def scheduled(self, since: str = "") -> PodWrapper:
        return self.condition("PodScheduled", "True", since=since)

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

    def labelled(self) -> PodWrapper:
        """As the operator labels pods that are resident."""
        return replace(self, labels={RESIDENT_LABEL: "true"})

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
            labels |= {ROLE_LABEL: self.role, REVISION_LABEL: self.template}
        else:
            labels[PREFETCH_LABEL] = self.template
        meta = owned(self.name, **labels | self.labels)
        meta["creationTimestamp"] = self.created
        meta["annotations"] = self.annotations
        if self.deleting:
            meta["deletionTimestamp"] = ago(seconds=1)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": self._spec(),
            "status": {
                "phase": self.phase,
                "reason": self.reason,
                "message": self.message,
                "conditions": list(self.conditions.values()),
                "containerStatuses": list(self.containers.values()),
                "initContainerStatuses": list(self.init_containers.values()),
            },
        }

    def _spec(self) -> Object:
        where = {"nodeName": self.node} if self.node else _pinned(self.pinned_to)
        resources = {"requests": {"memory": self.memory}}
        return {
            **where,
            "schedulingGates": [{"name": PREFETCH_GATE}] if self.gated else [],
            "containers": [{"name": "agent", "resources": resources}],
            "volumes": [{"image": {"reference": image}} for image in self.images],
        }

    def waits(self, node: str, *images: str, **fields: Any) -> PodWrapper:
        """For its turn to pull images onto a node."""
        return replace(self, node="", pinned_to=node, gated=True, images=images, **fields)

    def view(self) -> PodView:
        found = project(POD, self.body())
        assert isinstance(found, PodView)
        return found


def _pinned(node: str) -> Object:
    """As the DaemonSet controller says for which node a pod is."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"nodeAffinity": required}} if node else {}


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
    daemon_sets: tuple[WorkloadView, ...] = ()
    deployment: WorkloadView | None = None
    prefetch_pods: tuple[PodView, ...] = ()
    engine_pods: tuple[PodView, ...] = ()
    resolutions: dict[str, Resolution | None] = field(
        default_factory=lambda: {image: Resolved(digest) for image, digest in DIGESTS.items()}
    )
    pod_security: PodSecurity = "privileged"
    refusals: tuple[Refusal, ...] = ()
    unmounted: dict[str, str] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    nodes: NodesSeen | None = None
    marks: dict[str, Marks] = field(default_factory=dict)
    """Of revisions, by hash; those that are not named were accepted."""
    room: Room | None = None
    failing: dict[str, datetime] = field(default_factory=dict)
    hardware: dict[str, str] = field(default_factory=dict)
    idle: dict[str, datetime] = field(default_factory=dict)

    @property
    def parsed(self) -> WarmModel:
        return WarmModel.parse(self.model)

    @property
    def hash(self) -> str:
        return revision.compute_hash(self.parsed.spec)

    @property
    def identity(self) -> str:
        """Of the prefetch pods of the present spec."""
        stored = next((found for found in self.stored if found.hash == self.hash), None)
        return (stored or self._rendered(1, None)).prefetch_hash

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

    def _rendered(self, number: int, digests: Digests | None) -> Revision:
        known = digests or Digests.resolved(self.parsed.spec, DIGESTS.get)
        return revision.render(self.parsed, known, "privileged", SETTINGS, number)

    def change_weights(self, **spec: Any) -> World:
        """Another model image, whose revision is stored."""
        return self.change(model={"image": OTHER_IMAGE}, **spec).store(number=len(self.stored) + 1)

    def prefetching(self, nodes: int, *pods: PodWrapper, of: str = "") -> World:
        """A DaemonSet (of the present weights) exists and wants that many pods. Those of other
        weights stay as they are."""
        weights = of or self.identity
        others = tuple(found for found in self.daemon_sets if found.template != weights)
        kept = tuple(p for p in self.prefetch_pods if p.meta.labels[PREFETCH_LABEL] != weights)
        views = tuple((pod if pod.template else pod.of(weights)).view() for pod in pods)
        workloads = (*others, daemon_set(weights, nodes))
        return replace(self, daemon_sets=workloads, prefetch_pods=(*kept, *views))

    def deployed(
        self,
        *pods: PodWrapper,
        replicas: int = 1,
        of: str = "",
        conditions: Iterable[Object] = (),
    ) -> World:
        workload = deployment(of or self.hash, replicas, conditions)
        views = tuple((pod if pod.template else pod.of(self.hash)).view() for pod in pods)
        return replace(self, deployment=workload, engine_pods=views)

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
            daemon_sets=self.daemon_sets,
            deployment=self.deployment,
            prefetch_pods=self.prefetch_pods,
            engine_pods=self.engine_pods,
            resolutions=self.resolutions,
            refusals=self.refusals,
            unmounted=self.unmounted,
            failures=self.failures,
            nodes=self.nodes,
            room=self.room,
            failing=self.failing,
            hardware=self.hardware,
            idle=self.idle,
        )

    def _stored(self, found: Revision) -> StoredRevision:
        marks = self.marks.get(found.hash, ACCEPTED)
        return StoredRevision(revision_view(found.name, marks.annotations()), found)

    def plan(self, now: datetime = NOW) -> Plan:
        return make(self.observed(), now)

    def conditions(self, now: datetime = NOW) -> dict[str, Object]:
        status = self.plan(now).status
        assert status is not None
        return {condition["type"]: condition for condition in status["conditions"]}


GIB = 1024**3


def node(
    name: str,
    *images: str,
    version: int = 5,
    uid: str = "",
    labels: dict[str, str] | None = None,
    taints: Iterable[str] = (),
    cordoned: bool = False,
    listed: int | None = None,
    address: str = "10.0.0.1",
    **allocatable: str,
) -> Object:
    """A node that lists these images. Taints are written as `key=value:Effect`; `listed`: how many
    images the list has; allocatable resources with `__` for `/` and `_` for `.`."""
    resources = {k.replace("__", "/").replace("_", "."): v for k, v in allocatable.items()}
    entries = [{"names": [image]} for image in images]
    entries += [{"names": []}] * (0 if listed is None else listed - len(images))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": {
            "unschedulable": cordoned,
            "taints": [_taint(taint) for taint in taints],
        },
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", **resources},
            "images": entries,
            "addresses": [{"type": "InternalIP", "address": address}],
        },
    }


def node_view(name: str, *images: str, **fields: Any) -> NodeView:
    found = project(NODE, node(name, *images, **fields))
    assert isinstance(found, NodeView)
    return found


def _taint(text: str) -> Object:
    what, _, effect = text.partition(":")
    key, _, value = what.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def revision_view(name: str, annotations: dict[str, str] | None = None) -> RevisionView:
    found = project(
        CONTROLLER_REVISION,
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {**owned(name), "annotations": annotations or {}},
        },
    )
    assert isinstance(found, RevisionView)
    return found


def daemon_set(weights: str, nodes: int, *, observed: int = 1) -> WorkloadView:
    labels = {PREFETCH_LABEL: weights}
    found = project(
        DAEMON_SET,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": owned(f"{NAME}-prefetch-{weights}", **labels),
            "spec": {"template": {"metadata": {"labels": labels}}},
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
