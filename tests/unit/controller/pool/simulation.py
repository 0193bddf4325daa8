"""A cluster of one WarmModel in memory: pods that warm up, fall asleep, hang and die, a ReplicaSet
that creates and deletes them, and an operator that may die between any two of its writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, partial

from unit.controller.builders import NOW, PodWrapper
from warmpod.controller.demand import Demand
from warmpod.controller.objects.engine_pods import is_serving, is_warm
from warmpod.controller.objects.meta import DELETION_COST
from warmpod.controller.objects.views import PodView
from warmpod.controller.pool import RoleChange, Situation, decide
from warmpod.resources.names import ROLE_LABEL

WARM_UP_SECONDS = 4
WAKE_SECONDS = 1
GRACE = timedelta(seconds=30)
CURRENT = "current000"


@dataclass
class Pod:
    name: str
    node: str
    state: str = "cold"
    """cold, warm, asleep, waking, or hung: asleep for ever."""
    role: str = "serving"
    annotations: dict[str, str] = field(default_factory=dict)
    age: int = 0
    """Seconds in this state."""
    requests: int = 0
    """Seconds for which its requests still run."""

    def become(self, state: str) -> None:
        self.state, self.age = state, 0

    def view(self) -> PodView:
        annotations = tuple(sorted(self.annotations.items()))
        return _view(self.name, self.node, self.state, self.role, annotations)


@lru_cache(4096)
def _view(
    name: str, node: str, state: str, role: str, annotations: tuple[tuple[str, str], ...]
) -> PodView:
    pod = PodWrapper(name, "engine", CURRENT, node=node, annotations=dict(annotations), role=role)
    if state == "warm":
        return pod.warm().view()
    reason = {"asleep": "Asleep", "hung": "Asleep", "waking": "Waking"}
    return pod.not_warm(reason.get(state, "WarmingUp")).view()


class Cluster:
    def __init__(self, *, sleeping: bool) -> None:
        self.sleeping = sleeping
        self.now = NOW
        self.demand = Demand(1, 1, 1)
        self.desired: int | None = None
        self.pods: dict[str, Pod] = {}
        self.idle: dict[str, datetime] = {}
        self.cut: list[str] = []
        """Pods that were deleted while they had requests and were not waited for long enough."""
        self._made = 0

    # --- the cluster ------------------------------------------------------------------------------

    def tick(self) -> None:
        """One second."""
        self.now += timedelta(seconds=1)
        for pod in self.pods.values():
            pod.age += 1
            if pod.state == "cold" and pod.age >= WARM_UP_SECONDS:
                pod.become("warm")
            if pod.state == "waking" and pod.age >= WAKE_SECONDS:
                pod.become("warm")
            if pod.state == "warm" and pod.role == "serving":
                pod.requests = 5
            else:
                pod.requests = max(0, pod.requests - 1)

    def _replica_set(self) -> None:
        wanted = self.desired or 0
        while len(self.pods) < wanted:
            self._made += 1
            name = f"pod-{self._made:03}"
            self.pods[name] = Pod(name, f"node-{self._made % 3}")
        surplus = len(self.pods) - wanted
        for pod in sorted(self.pods.values(), key=_rank)[: max(0, surplus)]:
            if pod.requests and pod.state == "warm":
                self.cut.append(pod.name)
            del self.pods[pod.name]

    def views(self) -> tuple[PodView, ...]:
        return tuple(self.pods[name].view() for name in sorted(self.pods))

    @property
    def warm_serving(self) -> int:
        return sum(is_warm(pod) and is_serving(pod) for pod in self.views())

    @property
    def warm(self) -> int:
        return sum(map(is_warm, self.views()))

    # --- the operator -----------------------------------------------------------------------------

    def reconcile(self, writes: int | None = None) -> None:
        """Carries out a decision; dies after so many writes, if it says so. The ReplicaSet's
        controller is faster than the next decision."""
        for number, write in enumerate(self._writes()):
            if number == writes:
                self.idle = {}
                break
            write()
        self._replica_set()

    def situation(self) -> Situation:
        return Situation(
            pods=self.views(),
            demand=self.demand,
            current=CURRENT,
            sleeping=self.sleeping,
            unaccepted=frozenset(),
            idle=dict(self.idle),
            grace=GRACE,
            desired=self.desired,
            rolled_out=all(pod.state != "cold" for pod in self.pods.values()),
            now=self.now,
        )

    def _writes(self) -> Iterator[Callable[[], None]]:
        for change in decide(self.situation()).changes:
            yield partial(self._change, change)
        plan = decide(self.situation())
        for pod in plan.wake:
            yield partial(self._wake, pod.meta.name)
        for pod in plan.ask:
            yield partial(self._ask, pod)
        for pod in plan.sleep:
            yield partial(self._sleep, pod.meta.name)
        if plan.replicas != self.desired:
            yield partial(setattr, self, "desired", plan.replicas)
        kept = {pod.meta.uid for pod in plan.ask}
        self.idle = {uid: since for uid, since in self.idle.items() if uid in kept}

    def _change(self, change: RoleChange) -> None:
        pod = self.pods[change.pod.meta.name]
        assert change.pod.meta.labels.get(ROLE_LABEL) != change.role, "a change that is none"
        pod.role = change.role
        for name, text in change.annotations.items():
            if text is None:
                pod.annotations.pop(name, None)
            else:
                pod.annotations[name] = text

    def _wake(self, name: str) -> None:
        if self.pods[name].state == "asleep":
            self.pods[name].become("waking")

    def _sleep(self, name: str) -> None:
        pod = self.pods[name]
        assert pod.role == "standby"
        if pod.state == "warm" and not pod.requests:
            pod.become("asleep")

    def _ask(self, pod: PodView) -> None:
        if self.pods[pod.meta.name].requests:
            self.idle.pop(pod.meta.uid, None)
        else:
            self.idle.setdefault(pod.meta.uid, self.now)


def _rank(pod: Pod) -> tuple[bool, int, str]:
    """What a ReplicaSet deletes first (k8s.io/kubernetes/pkg/controller: ActivePodsWithRanks)."""
    return (pod.state == "warm", int(pod.annotations.get(DELETION_COST, "0")), pod.name)
