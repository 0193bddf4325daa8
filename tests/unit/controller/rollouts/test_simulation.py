"""Whole rollouts: the operator's plans against a Deployment controller that does what that of
Kubernetes does (pkg/controller/deployment/rolling.go), with devices that run out and an operator
that is away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from unit.controller.builders import NOW, PodWrapper, World, engine, prefetch, revision_view
from warmpod.controller.nodes import surge
from warmpod.controller.nodes.surge import Places
from warmpod.controller.observed import StoredRevision
from warmpod.controller.rollouts import marking
from warmpod.controller.rollouts.failures import FailureWatch
from warmpod.controller.rollouts.marking import Marks
from warmpod.resources.names import REVISION_LABEL

STEP = timedelta(seconds=5)
#: Steps until a pod that has a device is warm.
START = 3
FAST, SLOW = {"chat/16x1": 100.0}, {"chat/16x1": 300.0}


@dataclass
class Pod:
    name: str
    revision: str
    placed: int | None = None
    """Step in which it got its device."""
    leaving: bool = False

    def warm_since(self, good: bool) -> int | None:
        return None if self.placed is None or not good else self.placed + START


@dataclass
class Cluster:
    world: World
    devices: int
    kinds: dict[str, str]
    """By revision: good, slow or broken."""
    replicas: int = 1
    step: int = 0
    pods: list[Pod] = field(default_factory=list)
    spec: dict[str, Any] = field(default_factory=dict)
    min_ready: dict[str, int] = field(default_factory=dict)
    """Of each ReplicaSet: the newest one follows the Deployment."""
    sets: dict[str, int] = field(default_factory=dict)
    watch: FailureWatch = field(default_factory=FailureWatch)
    made: int = 0
    fewest: int = 1000
    """Pods that were warm and staying at any time, at least."""

    @property
    def now(self) -> datetime:
        return NOW + self.step * STEP

    def run(self, steps: int, *, operator: bool = True) -> None:
        for _ in range(steps):
            if operator:
                self._operate()
            self._control()
            self._schedule()
            self.fewest = min(self.fewest, sum(map(self._is_warm, self._staying())))
            self.step += 1

    def revisions(self) -> set[str]:
        return {pod.revision for pod in self._staying()}

    # --- The operator -----------------------------------------------------------------------------

    def _operate(self) -> None:
        for _ in range(4):
            plan, written = self._observed().plan(self.now), self.world.marks
            for obj in plan.apply:
                if obj["kind"] == "ControllerRevision":
                    self._write(obj)
                if obj["kind"] == "Deployment":
                    self.spec = obj["spec"]
            if self.world.marks == written:
                break

    def _write(self, obj: dict[str, Any]) -> None:
        stored = next(s for s in self.world.stored if s.name == obj["metadata"]["name"])
        view = revision_view(stored.name, obj["metadata"].get("annotations"))
        marks = marking.of(StoredRevision(view, stored))
        self.world = replace(self.world, marks={**self.world.marks, stored.hash: marks})

    def _observed(self) -> World:
        found = Places("n1", self.devices, "gpu")
        room = surge.judge({"gpu": 1}, self.replicas + 1, [found], 1)
        world = replace(self.world, room=room)
        if self.spec:
            pods = [self._wrapped(pod) for pod in self.pods]
            world = world.deployed(*pods, replicas=self.spec["replicas"], of=self._template())
        failing = self.watch.look(("models", "llama"), world.engine_pods, self.now)
        return replace(world, failing=dict(failing))

    def _wrapped(self, pod: Pod) -> PodWrapper:
        found = replace(engine(pod.name).of(pod.revision), deleting=pod.leaving)
        kind = self.kinds[pod.revision]
        if pod.placed is None:
            return found.unschedulable("0/1 nodes", _text(self.now))
        if self._is_warm(pod):
            fastest = FAST if kind == "good" else SLOW
            found = found.warm().timeline(boot="b", gate=1e9, fastest=fastest)
            since = _text(NOW + (pod.placed + START) * STEP)
            return found.condition("Ready", "True", since=since)
        stuck = kind == "broken" and self.step >= pod.placed + START
        return found.not_warm("WarmupStalled" if stuck else "WarmingUp")

    # --- Kubernetes -------------------------------------------------------------------------------

    def _template(self) -> str:
        label: str = self.spec["template"]["metadata"]["labels"][REVISION_LABEL]
        return label

    def _staying(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.leaving]

    def _is_warm(self, pod: Pod) -> bool:
        since = pod.warm_since(self.kinds[pod.revision] != "broken")
        return since is not None and self.step >= since

    def _available(self, name: str) -> int:
        return sum(
            self._is_warm(pod)
            and (self.step - (pod.placed or 0) - START) * STEP.total_seconds()
            >= self.min_ready[name]
            for pod in self._staying()
            if pod.revision == name
        )

    def _control(self) -> None:
        if not self.spec:
            return
        new, wanted = self._template(), self.spec["replicas"]
        rolling = self.spec["strategy"]["rollingUpdate"]
        self.min_ready[new] = self.spec["minReadySeconds"]
        self.sets.setdefault(new, 0)
        for _ in range(3):
            if (
                self.sets[new] < wanted
                and (free := wanted + rolling["maxSurge"] - sum(self.sets.values())) > 0
            ):
                self.sets[new] += min(free, wanted - self.sets[new])
            else:
                self._retire(new, wanted - rolling["maxUnavailable"])
            self._replicate()

    def _retire(self, new: str, least: int) -> None:
        old = [name for name in self.sets if name != new and self.sets[name]]
        most = sum(self.sets.values()) - least - (self.sets[new] - self._available(new))
        if most <= 0:
            return
        for name in old:
            unhealthy = min(most, self.sets[name] - self._available(name))
            self.sets[name] -= unhealthy
            most -= unhealthy
        spare = sum(map(self._available, self.sets)) - least
        for name in old:
            gone = max(0, min(spare, self.sets[name]))
            self.sets[name] -= gone
            spare -= gone

    def _replicate(self) -> None:
        for name, count in self.sets.items():
            mine = [pod for pod in self._staying() if pod.revision == name]
            for pod in sorted(mine, key=lambda pod: (pod.placed is not None, self._is_warm(pod)))[
                : max(0, len(mine) - count)
            ]:
                pod.leaving = True
            for _ in range(count - len(mine)):
                self.made += 1
                self.pods.append(Pod(f"p{self.made}", name))

    def _schedule(self) -> None:
        """A pod that leaves holds its device until the next step."""
        free = self.devices - sum(pod.placed is not None for pod in self.pods)
        for pod in (pod for pod in self.pods if pod.placed is None):
            if free > 0 and not pod.leaving:
                pod.placed, free = self.step, free - 1
        self.pods = [p for p in self.pods if not p.leaving or self._lingers(p)]

    def _lingers(self, pod: Pod) -> bool:
        if pod.name in self._going:
            return False
        self._going.add(pod.name)
        return pod.placed is not None

    _going: set[str] = field(default_factory=set)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def serving(replicas: int, devices: int) -> Cluster:
    base = World().change(replicas=replicas).store().prefetching(1, prefetch().resident())
    world = replace(base, marks={base.hash: Marks()})
    cluster = Cluster(world, devices, {world.hash: "good"}, replicas)
    cluster.run(2 * START)
    assert len(cluster._staying()) == replicas
    cluster.fewest = replicas
    return cluster


def change(cluster: Cluster, kind: str, argument: str = "--new") -> str:
    world = cluster.world.change(engine={"args": [argument]})
    world = world.store(number=len(world.stored) + 1)
    marks = {world.hash: Marks(), **cluster.world.marks}
    cluster.world = replace(world, marks=marks)
    cluster.kinds[world.hash] = kind
    return world.hash


def cases() -> Iterator[Any]:
    for replicas in (1, 3):
        for spare in (0, 1, 2):
            for kind in ("good", "slow", "broken"):
                yield pytest.param(replicas, spare, kind, id=f"{replicas}+{spare}-{kind}")


@pytest.mark.parametrize(("replicas", "spare", "kind"), list(cases()))
def test_a_rollout_ends_well_and_costs_no_more_than_it_must(
    replicas: int, spare: int, kind: str
) -> None:
    cluster = serving(replicas, replicas + spare)
    old = cluster.world.hash
    new = change(cluster, kind)
    cluster.run(10 * replicas + 25)
    assert cluster.revisions() == {new if kind == "good" else old}
    assert sum(map(cluster._is_warm, cluster._staying())) == replicas
    assert cluster.fewest >= replicas - (0 if spare else 1)
    if kind != "good" and spare:
        assert {pod.name for pod in cluster.pods} == {f"p{n + 1}" for n in range(replicas)}


@pytest.mark.parametrize("kind", ["good", "slow", "broken"])
@pytest.mark.parametrize("after", [1, 3, 4, 6])
def test_an_operator_that_is_away_changes_nothing_for_the_worse(kind: str, after: int) -> None:
    cluster = serving(2, 3)
    old = cluster.world.hash
    new = change(cluster, kind)
    cluster.run(after)
    cluster.run(15, operator=False)
    cluster.run(35)
    assert cluster.fewest == 2
    assert cluster.revisions() == {new if kind == "good" else old}


@pytest.mark.parametrize("spare", [0, 1])
@pytest.mark.parametrize("kind", ["good", "slow", "broken"])
@pytest.mark.parametrize("after", [1, 4, 12])
def test_a_revert_at_any_time_goes_back(kind: str, after: int, spare: int) -> None:
    cluster = serving(2, 2 + spare)
    before = cluster.world.model
    change(cluster, kind)
    cluster.run(after)
    cluster.world = replace(cluster.world, model=before)
    cluster.run(25)
    assert cluster.revisions() == {cluster.world.hash}
    assert sum(map(cluster._is_warm, cluster._staying())) == 2
    assert cluster.fewest >= 2 - (0 if spare else 1)


@pytest.mark.parametrize("first", ["good", "slow", "broken"])
@pytest.mark.parametrize("after", [2, 9])
def test_another_change_in_the_middle(first: str, after: int) -> None:
    cluster = serving(2, 3)
    change(cluster, first)
    cluster.run(after)
    newest = change(cluster, "good", "--newer")
    cluster.run(40)
    assert cluster.revisions() == {newest}
    assert cluster.fewest == 2
