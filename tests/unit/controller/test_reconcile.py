"""Whole reconciles against an API server in memory."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from unit.controller.builders import (
    ENGINE_DIGEST,
    ENGINE_IMAGE,
    MODEL_DIGEST,
    MODEL_IMAGE,
    NAME,
    NAMESPACE,
    NOW,
    SETTINGS,
    PodWrapper,
    World,
    ago,
    engine,
    node,
    prefetch,
    warm_model,
)
from unit.controller.fake_kube import FakeKube
from unit.controller.fake_sidecars import FakeSidecars
from warmpod.controller import plan as planning
from warmpod.controller.accounting.accounts import Accounts
from warmpod.controller.apiserver.kinds import (
    CACHED,
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    OPTIONAL,
    POD,
    SERVICE,
    WARM_MODEL,
)
from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.apply import Applier
from warmpod.controller.clients.resolver import Resolution, Resolved
from warmpod.controller.forecasting.history import History
from warmpod.controller.forecasting.keeper import Forecasts
from warmpod.controller.forecasting.storage import Storage
from warmpod.controller.nodes.actions import NodeActions
from warmpod.controller.nodes.checks import Checks
from warmpod.controller.nodes.fleet import Fleet
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.parsed import Parsed
from warmpod.controller.objects.sweep import Sweeper
from warmpod.controller.objects.views import PodView
from warmpod.controller.observe import Observer
from warmpod.controller.plan import Plan
from warmpod.controller.pool.calls import Calls
from warmpod.controller.pool.idle import Idle
from warmpod.controller.pool.roles import Roles
from warmpod.controller.reconcile import Reconciler
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.controller.telling.gates import Gates
from warmpod.controller.telling.metrics import Metrics
from warmpod.controller.telling.recorder import Recorder
from warmpod.controller.telling.residency import Residency
from warmpod.controller.triggers import Triggers
from warmpod.protocol import WARM_NOW_ANNOTATION
from warmpod.resources.names import PREFETCH_LABEL

KEY = (NAMESPACE, NAME)
DAEMON_SET_NAME = f"{NAME}-prefetch-{World().identity}"
Object = dict[str, Any]


class FakeResolver:
    def __init__(self) -> None:
        self.answers: dict[str, Resolution | None] = {
            ENGINE_IMAGE: Resolved(ENGINE_DIGEST),
            MODEL_IMAGE: Resolved(MODEL_DIGEST),
        }
        self.asked: list[str] = []

    def lookup(self, image: str, key: tuple[str, str]) -> Resolution | None:
        self.asked.append(image)
        return self.answers[image]


class Unasked:
    """A registry, or a kubelet, that tells nothing."""

    def lookup(self, question: object, key: tuple[str, str]) -> object:
        return "unknown"


class Cluster:
    """The operator's parts around a fake API server; `observe()` is the watch catching up."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.cache = Cache()
        self.counters = CollectorRegistry()
        self.resolver = FakeResolver()
        self.sidecars = FakeSidecars()
        self.time = 0.0
        self.told: list[str] = []
        """Pods that were told to warm up again."""
        self.changed: asyncio.Queue[object] = asyncio.Queue()
        self.kube.put(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": NAMESPACE, "namespace": "", "labels": {}},
            }
        )
        self.restart()

    def restart(self) -> None:
        """Another operator process over the same cluster."""
        gates, residency = Gates(), Residency()
        checks = Checks(Unasked(), Unasked())
        self.fleet = Fleet(5, checks, lambda _: None, residency.lost)
        self.accounts = Accounts(Decimal("3.60"), clock=lambda: self.time)
        self.cache = Cache(
            gates.changed, residency.changed, self.fleet.changed, self.accounts.changed
        )
        self.counters = CollectorRegistry()
        metrics = Metrics(self.counters, self.cache)
        kube: Any = self.kube
        resolver: Any = self.resolver
        self.idle = idle = Idle()
        parsed = Parsed()
        self.reconciler = Reconciler(
            kube,
            self.cache,
            Observer(kube, self.cache, parsed, resolver, self.fleet, self.accounts, SETTINGS, idle),
            Roles(kube, self.cache, metrics),
            Calls(self.sidecars, idle, lambda _: None, now=lambda: NOW),
            Applier(kube, self.cache, metrics),
            NodeActions(kube, self.cache, metrics),
            Recorder(kube, metrics, "test"),
            metrics,
            gates,
            residency,
            Triggers(self, self.changed.put_nowait, pause=0),  # type: ignore[arg-type]
            Forecasts(
                self.cache,
                parsed,
                self,
                Storage(kube),
                History(None, ""),  # type: ignore[arg-type]
                self.changed.put_nowait,
            ),
            now=lambda: NOW,
        )

    async def warm(self, pod: PodView) -> None:
        self.told.append(pod.meta.name)

    async def observe(self) -> None:
        sweeper = Sweeper(self.kube, self.cache, (), lambda _: None)  # type: ignore[arg-type]
        for kind in (*OPTIONAL, *CACHED):
            await sweeper.sweep(kind)

    async def reconcile(self) -> float | None:
        await self.observe()
        return await self.reconciler(KEY)

    def update(self, kind: Any, name: str, **fields: Any) -> None:
        stored = self.kube.find(kind, name)
        assert stored is not None
        self.kube.put({**deepcopy(stored), **fields})

    def condition(self, name: str) -> Object:
        model = self.kube.find(WARM_MODEL, NAME)
        assert model is not None
        found: Object = next(c for c in model["status"]["conditions"] if c["type"] == name)
        return found

    def events(self) -> list[str]:
        return [obj["reason"] for obj in self.kube.objects.values() if obj["kind"] == "Event"]


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.kube.put(warm_model())
    return found


async def bring_up(cluster: Cluster) -> None:
    await cluster.reconcile()
    status = {"observedGeneration": 1, "desiredNumberScheduled": 1}
    cluster.update(DAEMON_SET, DAEMON_SET_NAME, status=status)
    revision = World().hash
    cluster.kube.put(prefetch().of(World().identity).resident().body())
    await cluster.reconcile()
    cluster.kube.put(engine().of(revision).warm().body())
    await cluster.reconcile()


async def test_from_nothing_to_warm(cluster: Cluster) -> None:
    await cluster.reconcile()
    assert cluster.kube.find(CONTROLLER_REVISION, f"{NAME}-{World().hash}") is not None
    assert cluster.kube.find(DAEMON_SET, DAEMON_SET_NAME) is not None
    assert cluster.kube.find(DEPLOYMENT, NAME) is None
    assert cluster.condition("Ready")["status"] == "Unknown"
    await bring_up(cluster)
    assert cluster.kube.find(DEPLOYMENT, NAME) is not None
    assert cluster.condition("Ready")["status"] == "True"
    assert sorted(cluster.events()) == ["AllWarm", "Prefetched", "Resident", "RevisionCreated"]


async def test_warm_pods_are_told_when_the_annotation_changes(cluster: Cluster) -> None:
    await bring_up(cluster)
    model = cluster.kube.find(WARM_MODEL, NAME)
    assert model is not None
    annotations = {WARM_NOW_ANNOTATION: "commit-1"}
    cluster.update(WARM_MODEL, NAME, metadata={**model["metadata"], "annotations": annotations})
    await cluster.reconcile()
    await cluster.changed.get()
    await cluster.reconcile()
    assert cluster.told == ["llama-0"]
    model = cluster.kube.find(WARM_MODEL, NAME)
    assert model is not None
    assert model["status"]["warmNow"]["id"] == "commit-1"
    assert model["metadata"]["annotations"] == annotations
    assert cluster.events().count("WarmedAgain") == 1
    cluster.restart()
    await cluster.reconcile()
    assert cluster.told == ["llama-0"]


async def test_nothing_is_written_when_nothing_changed(cluster: Cluster) -> None:
    await bring_up(cluster)
    before = len(cluster.kube.writes())
    for _ in range(3):
        assert await cluster.reconcile() is None
    assert len(cluster.kube.writes()) == before


async def test_a_restart_of_the_operator_changes_nothing(cluster: Cluster) -> None:
    await bring_up(cluster)
    before = deepcopy(cluster.kube.objects)
    cluster.restart()
    await cluster.reconcile()
    assert cluster.kube.objects == before


async def test_the_models_spec_and_metadata_are_never_written(cluster: Cluster) -> None:
    def untouchable() -> Object:
        model = cluster.kube.find(WARM_MODEL, NAME)
        assert model is not None
        moving = ("resourceVersion", "uid", "generation")
        kept = {k: v for k, v in model["metadata"].items() if k not in moving}
        return {"spec": deepcopy(model["spec"]), "metadata": kept}

    before = untouchable()
    await bring_up(cluster)
    assert untouchable() == before


async def test_the_status_is_written_by_status_alone(cluster: Cluster) -> None:
    await bring_up(cluster)
    verbs = {verb for verb, kind, _ in cluster.kube.writes() if kind == "WarmModel"}
    assert verbs == {"apply"}


async def test_fixed_digests_are_not_asked_for_again(cluster: Cluster) -> None:
    await bring_up(cluster)
    cluster.resolver.asked.clear()
    await cluster.reconcile()
    assert cluster.resolver.asked == []


async def test_a_name_that_is_taken_and_freed(cluster: Cluster) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"selector": {"app": "other"}},
    }
    cluster.kube.put(foreign)
    assert await cluster.reconcile() is not None, "nobody tells when it goes, so look again"
    assert cluster.condition("Ready")["reason"] == "NameConflict"
    assert (cluster.kube.find(SERVICE, NAME) or {})["spec"] == {"selector": {"app": "other"}}
    del cluster.kube.objects[(SERVICE, NAMESPACE, NAME)]
    await cluster.reconcile()
    assert cluster.condition("Ready")["reason"] != "NameConflict"


async def test_a_deleted_child_comes_back(cluster: Cluster) -> None:
    await bring_up(cluster)
    del cluster.kube.objects[(SERVICE, NAMESPACE, NAME)]
    await cluster.reconcile()
    assert cluster.kube.find(SERVICE, NAME) is not None


async def test_refused_pods_of_the_daemonset_are_read_from_its_events(cluster: Cluster) -> None:
    await cluster.reconcile()
    status = {"observedGeneration": 1, "desiredNumberScheduled": 1}
    cluster.update(DAEMON_SET, DAEMON_SET_NAME, status=status)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": NAMESPACE},
        "reason": "FailedCreate",
        "message": 'pods "x" is forbidden: violates PodSecurity "restricted:latest"',
        "lastTimestamp": "2999-01-01T00:00:00Z",
    }
    cluster.kube.put(event)
    assert await cluster.reconcile() is not None
    assert cluster.condition("Prefetched")["reason"] == "PodSecurityViolation"


async def test_why_a_pod_hangs_is_read_from_its_events(cluster: Cluster) -> None:
    await bring_up(cluster)
    pod = engine().scheduled("2020-01-01T00:00:00Z").waiting("engine", "ContainerCreating")
    found = cluster.kube.put(pod.of(World().hash).body())
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": NAMESPACE},
        "involvedObject": {"kind": "Pod", "uid": found["metadata"]["uid"]},
        "reason": "FailedMount",
        "message": 'MountVolume.SetUp failed for volume "tls" : secret "engine-tls" not found',
        "lastTimestamp": "2999-01-01T00:00:00Z",
    }
    cluster.kube.put(event)
    assert await cluster.reconcile() == 15
    assert cluster.condition("Warm")["reason"] == "VolumeMountFailed"


async def test_a_namespace_that_may_not_be_read_counts_as_privileged(cluster: Cluster) -> None:
    cluster.kube.fail("get", "Namespace", ApiError(403, "Forbidden", "no"))
    await cluster.reconcile()
    assert cluster.kube.find(DAEMON_SET, DAEMON_SET_NAME) is not None


async def test_a_model_that_is_gone_is_forgotten(cluster: Cluster) -> None:
    await bring_up(cluster)
    del cluster.kube.objects[(WARM_MODEL, NAMESPACE, NAME)]
    before = len(cluster.kube.writes())
    assert await cluster.reconcile() is None
    assert len(cluster.kube.writes()) == before


async def test_a_model_that_is_being_deleted_is_left_to_the_garbage_collector(
    cluster: Cluster,
) -> None:
    await bring_up(cluster)
    stored = cluster.kube.find(WARM_MODEL, NAME)
    assert stored is not None
    metadata = {**stored["metadata"], "deletionTimestamp": ago(seconds=1)}
    cluster.update(WARM_MODEL, NAME, metadata=metadata)
    before = len(cluster.kube.writes())
    cluster.kube.objects.pop((SERVICE, NAMESPACE, NAME))
    assert await cluster.reconcile() is None
    assert len(cluster.kube.writes()) == before


async def test_a_namespace_that_is_being_deleted_is_no_error(cluster: Cluster) -> None:
    error = ApiError(403, "NamespaceTerminating", "terminating")
    cluster.kube.fail("apply", "ServiceAccount", error)
    assert await cluster.reconcile() is None


@pytest.mark.parametrize("status", [404, 409])
async def test_a_model_that_goes_while_its_status_is_written(cluster: Cluster, status: int) -> None:
    cluster.kube.fail("apply", "WarmModel", ApiError(status, "x", "x"))
    await cluster.reconcile()


async def test_retry_after_on_the_status(cluster: Cluster) -> None:
    cluster.kube.fail("apply", "WarmModel", ApiError(429, "x", "x", retry_after=9))
    with pytest.raises(RetryLater) as raised:
        await cluster.reconcile()
    assert raised.value.delay == 9


def events_named(cluster: Cluster, reason: str) -> list[Object]:
    events = [obj for obj in cluster.kube.objects.values() if obj["kind"] == "Event"]
    return [event for event in events if event["reason"] == reason]


async def test_an_error_of_the_operator_itself_is_told_to_the_owner(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = iter(("one", "another"))

    def make(*_: object) -> Plan:
        raise KeyError(next(texts))

    monkeypatch.setattr(planning, "make", make)
    for _ in range(2):
        with pytest.raises(KeyError):
            await cluster.reconcile()
    (event,) = events_named(cluster, "ReconcileFailed")
    assert (event["type"], event["count"]) == ("Warning", 2)
    assert "KeyError" in event["message"]


@pytest.mark.parametrize("error", [ApiError(500, "x", "x"), Unreachable("gone")])
async def test_an_error_of_the_api_server_is_not(cluster: Cluster, error: Exception) -> None:
    cluster.kube.fail("apply", "WarmModel", error)
    with pytest.raises(type(error)):
        await cluster.reconcile()
    assert events_named(cluster, "ReconcileFailed") == []


async def test_a_lost_event_stops_nothing(cluster: Cluster) -> None:
    cluster.kube.fail("create", "Event", ApiError(500, "x", "x"))
    await cluster.reconcile()
    assert cluster.kube.find(DAEMON_SET, DAEMON_SET_NAME) is not None
    assert "warmpod_operator_events_lost_total 1.0" in generate_latest(cluster.counters).decode()


async def test_the_same_event_again_is_counted(cluster: Cluster) -> None:
    await bring_up(cluster)
    revision = World().hash
    for pod in (engine().not_warm("NoTokenYet", "no token"), engine().warm()) * 2:
        cluster.kube.put(pod.of(revision).body())
        await cluster.reconcile()
    counts = {
        obj["reason"]: obj["count"]
        for obj in cluster.kube.objects.values()
        if obj["kind"] == "Event"
    }
    assert counts["NoTokenYet"] == 2
    assert counts["AllWarm"] == 3


def started(**fields: Any) -> PodWrapper:
    timeline = {"boot": "b", "cause": "pod-start", "rounds": 3, "gate": NOW.timestamp(), **fields}
    return engine().of(World().hash).warm().timeline(**timeline)


async def test_a_start_up_is_told_and_counted_once(cluster: Cluster) -> None:
    await bring_up(cluster)
    count = 'warmpod_startup_seconds_count{cause="pod-start"}'
    cluster.kube.put(started().body())
    for _ in range(3):
        await cluster.reconcile()
    assert cluster.events().count("PodWarm") == 1
    assert f"{count} 1.0" in generate_latest(cluster.counters).decode()
    cluster.restart()
    await cluster.reconcile()
    assert count not in generate_latest(cluster.counters).decode()
    (event,) = [obj for obj in cluster.kube.objects.values() if obj.get("reason") == "PodWarm"]
    assert event["count"] == 1


async def test_a_start_up_stays_in_the_status_after_its_pod(cluster: Cluster) -> None:
    await bring_up(cluster)
    cluster.kube.put(started().body())
    await cluster.reconcile()
    await cluster.kube.delete(POD, NAMESPACE, engine().name, uid=f"uid-{engine().name}")
    await cluster.reconcile()
    model = cluster.kube.find(WARM_MODEL, NAME)
    assert model is not None
    assert [startup["boot"] for startup in model["status"]["lastStartups"]] == ["b"]


async def test_a_gate_that_closes_is_told_once(cluster: Cluster) -> None:
    await bring_up(cluster)
    cluster.kube.put(engine().of(World().hash).not_warm("EngineDied", "boot b ended").body())
    for _ in range(2):
        await cluster.reconcile()
    cluster.restart()
    await cluster.reconcile()
    found = [obj for obj in cluster.kube.objects.values() if obj.get("reason") == "GateClosed"]
    assert [event["count"] for event in found] == [1]


async def test_metrics_count_models_and_pods_without_their_names(cluster: Cluster) -> None:
    await bring_up(cluster)
    await cluster.observe()
    text = generate_latest(cluster.counters).decode()
    ready = 'warmpod_warmmodels{condition="Ready",namespace="models",status="True"} 1.0'
    assert ready in text
    assert 'warmpod_pods{component="engine",namespace="models",state="warm"} 1.0' in text
    assert engine().name not in text


async def test_a_model_that_was_deleted_without_its_children_takes_them_over(
    cluster: Cluster,
) -> None:
    """`kubectl delete --cascade=orphan`, then created again: no pod may be replaced."""
    await bring_up(cluster)
    templates = [
        (cluster.kube.find(kind, name) or {})["spec"]["template"]
        for kind, name in ((DEPLOYMENT, NAME), (DAEMON_SET, DAEMON_SET_NAME))
    ]
    for obj in list(cluster.kube.objects.values()):
        meta = {k: v for k, v in obj["metadata"].items() if k != "ownerReferences"}
        cluster.kube.put({**obj, "metadata": meta})
    del cluster.kube.objects[(WARM_MODEL, NAMESPACE, NAME)]
    await cluster.reconcile()
    model = warm_model()
    model["metadata"]["uid"] = "uid-again"
    cluster.resolver.answers[ENGINE_IMAGE] = Resolved("sha256:" + "f" * 64)
    cluster.kube.put(model)
    await cluster.reconcile()
    assert cluster.condition("Ready")["status"] == "True"
    for kind in (CONTROLLER_REVISION, DAEMON_SET, DEPLOYMENT, SERVICE):
        (owned,) = [obj for key, obj in cluster.kube.objects.items() if key[0] is kind]
        assert owned["metadata"]["ownerReferences"][0]["uid"] == "uid-again"
    assert templates == [
        (cluster.kube.find(kind, name) or {})["spec"]["template"]
        for kind, name in ((DEPLOYMENT, NAME), (DAEMON_SET, DAEMON_SET_NAME))
    ]


async def test_stale_revisions_are_deleted(cluster: Cluster) -> None:
    for number in range(9):
        model = cluster.kube.find(WARM_MODEL, NAME)
        assert model is not None
        spec = deepcopy(model["spec"])
        spec["engine"]["args"] = [f"--number={number}"]
        cluster.update(WARM_MODEL, NAME, spec=spec)
        await cluster.reconcile()
    kept = [key for key in cluster.kube.objects if key[0] is CONTROLLER_REVISION]
    assert len(kept) == 6  # five, and the one that the DaemonSet has


async def test_pods_of_another_model_are_not_counted(cluster: Cluster) -> None:
    await bring_up(cluster)
    other = engine("other-0").of(World().hash).warm().body()
    other["metadata"]["labels"]["warmpod.io/model"] = "other"
    cluster.kube.put(other)
    await cluster.reconcile()
    model = cluster.kube.find(WARM_MODEL, NAME)
    assert model is not None
    assert model["status"]["replicas"] == 1
    assert len([1 for kind, *_ in cluster.kube.objects if kind is POD]) == 3


async def test_a_node_that_loses_the_weights_is_an_event(cluster: Cluster) -> None:
    await bring_up(cluster)
    for pod in (prefetch().not_resident("NotResident", "dropped"), prefetch().resident()):
        cluster.kube.put(pod.of(World().identity).body())
        await cluster.reconcile()
    assert "ResidencyLost" in cluster.events()


async def test_all_failed_nodes_are_counted_and_none_that_is_well_again(cluster: Cluster) -> None:
    await bring_up(cluster)
    names = [f"node-{number}" for number in range(8)]
    pods = [prefetch(f"p-{name}").on(name).of(World().identity) for name in names]
    for pod in pods:
        cluster.kube.put(pod.not_resident("DigestMismatch", "shard").body())
    await cluster.reconcile()
    shown = generate_latest(cluster.counters).decode()
    for name in names:
        labels = f'model="llama",namespace="models",node="{name}",reason="DigestMismatch"'
        assert f"warmpod_node_failed{{{labels}}} 1.0" in shown
    assert 'warmpod_warmmodel_nodes{model="llama",namespace="models",state="resident"} 1.0' in shown
    for pod in pods:
        cluster.kube.put(pod.resident().body())
    await cluster.reconcile()
    assert "warmpod_node_failed{" not in generate_latest(cluster.counters).decode()


async def test_a_daemonset_that_nobody_uses_is_deleted(cluster: Cluster) -> None:
    await bring_up(cluster)
    before = cluster.kube.find(DAEMON_SET, DAEMON_SET_NAME)
    assert before is not None
    body = {**deepcopy(before), "metadata": {**before["metadata"], "name": "llama-prefetch-older"}}
    del body["metadata"]["uid"]
    body["spec"]["template"]["metadata"]["labels"][PREFETCH_LABEL] = "older"
    cluster.kube.put(body)
    await cluster.reconcile()
    assert cluster.kube.find(DAEMON_SET, "llama-prefetch-older") is None
    assert cluster.kube.find(DAEMON_SET, DAEMON_SET_NAME) == before
    assert "WeightsReleased" in cluster.events()


# --- Nodes ----------------------------------------------------------------------------------------


def waits(name: str, where: str) -> PodWrapper:
    return prefetch(name).waits(where, MODEL_IMAGE).of(World().identity)


def gated(cluster: Cluster, name: str) -> bool:
    pod = cluster.kube.find(POD, name)
    assert pod is not None
    return bool(pod["spec"].get("schedulingGates"))


async def test_without_a_right_to_nodes_prefetch_pods_start_at_once(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.kube.put(waits("a", "node-1").body())
    await cluster.reconcile()
    assert not gated(cluster, "a")


async def test_prefetch_pods_take_turns(cluster: Cluster) -> None:
    cluster.fleet.watched = True
    await cluster.reconcile()
    for number in range(8):
        cluster.kube.put(node(f"node-{number}"))
        cluster.kube.put(waits(f"p{number}", f"node-{number}").body())
    cluster.kube.put(node("cordoned", cordoned=True))
    cluster.kube.put(waits("other", "cordoned").body())
    await cluster.reconcile()
    assert [gated(cluster, f"p{number}") for number in range(8)] == [False] * 5 + [True] * 3
    assert gated(cluster, "other")
    writes = len(cluster.kube.writes())
    await cluster.reconcile()
    assert len(cluster.kube.writes()) == writes, "nothing is done twice"
    cluster.kube.put(prefetch("p0").on("node-0").of(World().identity).running().body())
    await cluster.reconcile()
    assert not gated(cluster, "p5")
    assert gated(cluster, "p6")


async def test_a_pod_whose_image_was_taken_is_replaced_and_told_of(cluster: Cluster) -> None:
    cluster.fleet.watched = True
    cluster.kube.put(node("node-1", MODEL_IMAGE, ENGINE_IMAGE))
    await bring_up(cluster)
    pod = replace(prefetch().resident(), images=(MODEL_IMAGE,)).of(World().identity)
    cluster.kube.put(pod.body())
    await cluster.reconcile()
    assert cluster.condition("Prefetched")["status"] == "True"
    cluster.kube.put(node("node-1", ENGINE_IMAGE))
    await cluster.reconcile()
    assert cluster.kube.find(POD, pod.name) is None
    deleted = [call for call in cluster.kube.calls if call[:2] == ("delete", "Pod")]
    assert len(deleted) == 1
    (event,) = [e for e in cluster.kube.objects.values() if e.get("reason") == "ResidencyLost"]
    assert "node-1: ImageRemoved" in event["message"]
    assert cluster.condition("Prefetched")["status"] == "False"


async def test_a_pod_that_was_needed_and_not_there_is_counted_also_by_the_next_operator(
    cluster: Cluster,
) -> None:
    def standby() -> Object:
        model = cluster.kube.find(WARM_MODEL, NAME)
        assert model is not None
        found: Object = model["status"]["standby"]
        return found

    await bring_up(cluster)
    revision = World().hash
    for number in (1, 2):
        stored = cluster.kube.find(WARM_MODEL, NAME)
        assert stored is not None
        cluster.update(WARM_MODEL, NAME, spec=stored["spec"] | {"replicas": 1 + number})
        pod = engine(f"llama-{number}").of(revision)
        cluster.kube.put(pod.running().body())
        await cluster.reconcile()
        cluster.kube.put(pod.warm().body())
        await cluster.reconcile()
        assert standby()["coldStarts"] == number
        cluster.restart()
        await cluster.reconcile()
    assert standby()["summary"] == "0 warm, 0 asleep, 2 cold"


async def test_advice_is_an_event_once(cluster: Cluster) -> None:
    cluster.kube.put(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "scaler", "namespace": NAMESPACE},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
                "maxReplicas": 3,
            },
        }
    )
    await bring_up(cluster)
    await cluster.reconcile()
    (told,) = [
        event
        for event in cluster.kube.objects.values()
        if event.get("reason") == "AutoscalerScalesDeployment"
    ]
    assert told.get("count", 1) == 1
    assert "scaler" in cluster.condition("Ready")["message"]
