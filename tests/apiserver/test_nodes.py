"""Nodes that kwok plays: who pulls when and where, and what becomes of nodes that change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from support import operator
from support.api import Api, JsonObject
from support.models import ModelView, warm_model
from support.nodes import (
    BY_HAND,
    change_status,
    fake_nodes,
    list_images,
    only_on,
    play,
    report,
    start,
)
from support.waiting import wait_until

GPU = "nvidia.com/gpu"
STARTUP_TAINT = {"key": "warmpod.io/not-ready", "effect": "NoSchedule"}
RESIDENT = "warmpod.io/Resident"
AT_ONCE = 5  # the operator's default


def by_hand(prefix: str) -> JsonObject:
    """Where pods of the nodes of that prefix go, to be started by the test."""
    pod = only_on(prefix)
    return {**pod, "tolerations": [*pod["tolerations"], BY_HAND]}


def with_gpu() -> JsonObject:
    engine: JsonObject = warm_model("x", "x")["spec"]["engine"]
    return {**engine, "resources": {"limits": {GPU: "1"}}}


def apply(api: Api, name: str, namespace: str, pod: JsonObject, **spec: Any) -> ModelView:
    api.apply(warm_model(name, namespace, pod=pod, **spec))
    return ModelView(api, name, namespace)


def released(pods: list[JsonObject]) -> list[JsonObject]:
    return [pod for pod in pods if not pod["spec"].get("schedulingGates")]


def on(pods: list[JsonObject], node: str) -> JsonObject | None:
    return next((pod for pod in pods if pod["spec"].get("nodeName") == node), None)


def wait_released(view: ModelView, node: str) -> JsonObject:
    found = wait_until(
        f"the prefetch pod may go to {node}",
        lambda: on(view.prefetch_pods(), node),
        timeout_s=60,
        describe=view.conditions,
    )
    assert found is not None
    return found


def wait_prefetch_pods(view: ModelView, count: int) -> None:
    wait_until(
        f"{count} prefetch pods exist",
        lambda: len(view.prefetch_pods()) == count,
        timeout_s=60,
        describe=view.conditions,
    )


def status_of_nodes(view: ModelView) -> JsonObject:
    found: JsonObject = view.get().get("status", {}).get("nodes", {})
    return found


def wait_nodes(view: ModelView, **counts: int) -> None:
    wait_until(
        f"status.nodes has {counts}",
        lambda: counts.items() <= status_of_nodes(view).items(),
        timeout_s=60,
        describe=lambda: f"{status_of_nodes(view)}\n{view.conditions()}",
    )


def test_pulls_are_staggered(api: Api, namespace: str) -> None:
    with fake_nodes(api, 20, prefix="stagger", resources={"pods": "20"}):
        view = apply(api, "staggered", namespace, by_hand("stagger"))
        wait_prefetch_pods(view, 20)
        most, done = 0, set[str]()
        while len(done) < 20:
            pulling = [
                p for p in released(view.prefetch_pods()) if p["metadata"]["name"] not in done
            ]
            most = max(most, len(pulling))
            assert len(pulling) <= AT_ONCE, view.conditions()
            first = wait_until(
                "somebody pulls",
                lambda done=done: next(
                    (
                        pod
                        for pod in released(view.prefetch_pods())
                        if pod["metadata"]["name"] not in done and pod["spec"].get("nodeName")
                    ),
                    None,
                ),
                timeout_s=60,
                describe=view.conditions,
            )
            assert first is not None
            start(api, first)
            done.add(first["metadata"]["name"])
        assert most == AT_ONCE
        wait_nodes(view, eligible=20, prefetched=20)


def test_those_who_wait_say_so(api: Api, namespace: str) -> None:
    with fake_nodes(api, AT_ONCE, prefix="busy", resources={"pods": "20"}):
        first = apply(api, "first", namespace, by_hand("busy"))
        wait_until(
            "all nodes pull",
            lambda: len(released(first.prefetch_pods())) == AT_ONCE,
            timeout_s=60,
            describe=first.conditions,
        )
        second = apply(api, "second", namespace, by_hand("busy"))
        found = second.wait_condition("Prefetched", "False", {"WaitingForTurn"})
        assert f"at most {AT_ONCE} pull at a time from 127.0.0.1:5000" in found["message"]
        for pod in first.prefetch_pods():
            start(api, pod)
        wait_until(
            "the second one's turn comes",
            lambda: len(released(second.prefetch_pods())) == AT_ONCE,
            timeout_s=60,
            describe=second.conditions,
        )


def test_only_nodes_with_the_device_are_prefetched(api: Api, namespace: str) -> None:
    resources = {GPU: "1"}
    with fake_nodes(api, 2, prefix="mixed", resources={"pods": "20"}) as (plain, gpu):
        change_status(api, gpu, {"capacity": resources, "allocatable": resources})
        view = apply(api, "gpu", namespace, by_hand("mixed"), engine=with_gpu())
        pod = wait_released(view, gpu)
        wait_prefetch_pods(view, 2)
        wait_nodes(view, eligible=1)
        start(api, pod)
        report(api, pod, RESIDENT, "Resident")
        assert view.wait_condition("Prefetched", "True")["message"].startswith("1 of 1 nodes")
        assert on(view.prefetch_pods(), plain) is None
        # Its device plugin comes later.
        change_status(api, plain, {"capacity": resources, "allocatable": resources})
        wait_released(view, plain)
        wait_nodes(view, eligible=2)


def test_no_node_says_why(api: Api, namespace: str) -> None:
    with fake_nodes(api, 2, prefix="none", resources={"pods": "20"}):
        view = apply(api, "nowhere", namespace, only_on("none"), engine=with_gpu())
        found = view.wait_condition("Prefetched", "False", {"NoEligibleNodes"})
        assert f"2 with fewer than 1 {GPU}" in found["message"]


def test_a_node_without_the_memory_is_refused_with_numbers(api: Api, namespace: str) -> None:
    with fake_nodes(api, 1, prefix="small", resources={"memory": "8Gi"}) as (node,):
        weights = {"medium": "Image", "size": "16Gi"}
        view = apply(api, "large", namespace, only_on("small"), weights=weights)
        found = view.wait_condition("Prefetched", "False", {"MemoryTooSmall"})
        assert f"node {node}: the prefetch pod requests 16." in found["message"]
        assert "the node has 8.0Gi for pods" in found["message"]
        assert released(view.prefetch_pods()) == []
        (failed,) = status_of_nodes(view)["failed"]
        assert (failed["node"], failed["reason"]) == (node, "MemoryTooSmall")
        change_status(api, node, {"allocatable": {"memory": "32Gi"}})
        wait_released(view, node)


def test_cordoned_nodes_wait(api: Api, namespace: str) -> None:
    with fake_nodes(api, 2, prefix="cordon", resources={"pods": "20"}) as (kept, cordoned):
        api.patch("Node", cordoned, "", {"spec": {"unschedulable": True}})
        view = apply(api, "cordoned", namespace, by_hand("cordon"))
        wait_released(view, kept)
        wait_prefetch_pods(view, 2)
        wait_nodes(view, eligible=1)
        assert on(view.prefetch_pods(), cordoned) is None
        api.patch("Node", cordoned, "", {"spec": {"unschedulable": False}})
        wait_released(view, cordoned)


def test_an_image_that_was_taken_is_pulled_again(api: Api, namespace: str) -> None:
    with fake_nodes(api, 1, prefix="taken", resources={"pods": "20"}) as (node,):
        view = apply(api, "taken", namespace, by_hand("taken"))
        pod = wait_released(view, node)
        images = images_of(pod)
        start(api, pod)
        list_images(api, node, images)
        report(api, pod, RESIDENT, "Resident")
        wait_nodes(view, resident=1)
        wait_until("the pod is labelled", lambda: is_labelled(view), timeout_s=30)

        list_images(api, node, images[1:])
        successor = wait_until(
            "another pod pulls",
            lambda: (
                (found := on(view.prefetch_pods(), node))
                and found["metadata"]["uid"] != pod["metadata"]["uid"]
                and found
            ),
            timeout_s=60,
            describe=view.conditions,
        )
        assert successor
        wait_nodes(view, prefetched=0, resident=0)
        wait_until("an event tells", lambda: "ImageRemoved" in told(api, view), timeout_s=30)
        start(api, successor)
        list_images(api, node, images)
        report(api, successor, RESIDENT, "Resident")
        wait_nodes(view, prefetched=1, resident=1)


def images_of(pod: JsonObject) -> list[str]:
    volumes = [
        volume["image"]["reference"] for volume in pod["spec"]["volumes"] if "image" in volume
    ]
    return sorted({*volumes, *(container["image"] for container in pod["spec"]["containers"])})


def is_labelled(view: ModelView) -> bool:
    (pod,) = view.prefetch_pods()
    return bool(pod["metadata"]["labels"].get("warmpod.io/resident") == "true")


def told(api: Api, view: ModelView) -> str:
    """All events about a WarmModel."""
    events = api.list("Event", view.namespace)
    return "\n".join(
        f"{event['reason']}: {event['message']}"
        for event in events
        if event["involvedObject"]["name"] == view.name
    )


@pytest.fixture
def nodes_are_forbidden(api: Api) -> Iterator[None]:
    with operator.without_nodes(api):
        yield


@pytest.mark.usefixtures("nodes_are_forbidden")
def test_without_a_right_to_nodes_all_start_at_once(api: Api, namespace: str) -> None:
    with fake_nodes(api, AT_ONCE + 1, prefix="blind", resources={"pods": "20"}):
        view = apply(api, "blind", namespace, by_hand("blind"))
        wait_until(
            "all are on their nodes",
            lambda: len(released(view.prefetch_pods())) == AT_ONCE + 1,
            timeout_s=60,
            describe=view.conditions,
        )
        wait_nodes(view, eligible=AT_ONCE + 1)


# --- New nodes ------------------------------------------------------------------------------------


def serves_on(api: Api, view: ModelView, node: str) -> None:
    """Plays the model's pods until an engine is warm there."""

    def warm() -> JsonObject | None:
        play(api, (*view.prefetch_pods(), *view.engine_pods()))
        return on(view.engine_pods(), node)

    wait_until(f"an engine is on {node}", warm, timeout_s=90, describe=view.conditions)


def test_engines_prefer_a_node_that_is_resident(api: Api, namespace: str) -> None:
    resources = {GPU: "1", "cpu": "8", "memory": "32Gi", "pods": "20"}
    with fake_nodes(api, 1, prefix="grow", resources=resources) as (old,):
        view = apply(api, "grows", namespace, by_hand("grow"), engine=with_gpu())
        start(api, wait_released(view, old))
        serves_on(api, view, old)
        with more_nodes(api, 2, "grow", resources) as (first, second):
            wait_released(view, first)
            pod = wait_released(view, second)
            start(api, pod)
            report(api, pod, RESIDENT, "Resident")
            wait_nodes(view, eligible=3, resident=2)
            wait_until("the pod is labelled", lambda: labelled(view) == 2, timeout_s=30)
            api.patch("WarmModel", "grows", namespace, {"spec": {"replicas": 2}})
            serves_on(api, view, second)


def labelled(view: ModelView) -> int:
    labels = [pod["metadata"]["labels"] for pod in view.prefetch_pods()]
    return sum(found.get("warmpod.io/resident") == "true" for found in labels)


def more_nodes(api: Api, count: int, prefix: str, resources: JsonObject, **options: Any) -> Any:
    """Further nodes of a prefix that has some already."""
    return fake_nodes(api, count, f"{prefix}-more", belongs=prefix, resources=resources, **options)


@pytest.fixture
def taints_are_removed(api: Api) -> Iterator[None]:
    """The operator runs with the startup taint's setting, and the right that it needs."""
    with operator.removing_startup_taints(api):
        yield


@pytest.mark.usefixtures("taints_are_removed")
def test_a_node_with_the_startup_taint_is_prefetched_first(api: Api, namespace: str) -> None:
    resources = {GPU: "1", "cpu": "8", "memory": "32Gi", "pods": "20"}
    with fake_nodes(api, 1, prefix="load", resources=resources) as (old,):
        view = apply(api, "loaded", namespace, by_hand("load"), engine=with_gpu())
        start(api, wait_released(view, old))
        serves_on(api, view, old)
        api.patch("WarmModel", "loaded", namespace, {"spec": {"replicas": 2}})
        wait_until("a pod waits for a node", lambda: waiting(view), timeout_s=60)
        with more_nodes(api, 1, "load", resources, taints=[STARTUP_TAINT]) as (new,):
            pod = wait_released(view, new)
            assert waiting(view), "no engine is there before the weights"
            start(api, pod)
            assert has_startup_taint(api, new)
            assert waiting(view)
            report(api, pod, RESIDENT, "Resident")
            wait_until("the taint is gone", lambda: not has_startup_taint(api, new), timeout_s=30)
            serves_on(api, view, new)


def waiting(view: ModelView) -> list[JsonObject]:
    """Engine pods for which there is no node."""
    return [pod for pod in view.engine_pods() if not pod["spec"].get("nodeName")]


def has_startup_taint(api: Api, node: str) -> bool:
    taints = api.get("Node", node)["spec"].get("taints", [])
    return any(taint["key"] == STARTUP_TAINT["key"] for taint in taints)


def failed_mount(pod: JsonObject, message: str) -> JsonObject:
    """As a kubelet tells of a volume that it cannot mount."""
    meta, now = pod["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {
        "kind": "Pod",
        "apiVersion": "v1",
        **{k: meta[k] for k in ("namespace", "name", "uid")},
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.mount", "namespace": meta["namespace"]},
        "involvedObject": about,
        "type": "Warning",
        "reason": "FailedMount",
        "message": message,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }


def test_a_path_that_a_node_does_not_have_is_named(api: Api, namespace: str) -> None:
    """The pod's status says ContainerCreating, and no more."""
    with fake_nodes(api, 1, prefix="mount", resources={"pods": "20"}):
        source = {"nodePath": {"path": "/data/llama"}}
        view = apply(api, "unmounted", namespace, by_hand("mount"), model=source)
        pod = wait_released(view, "mount-0")
        api.apply(
            failed_mount(
                pod,
                'MountVolume.SetUp failed for volume "warmpod-model" : hostPath type check failed: '
                "/data/llama is not a directory",
            )
        )
        found = view.wait_condition("WeightsResident", "False", {"PathMismatch"})
        assert "spec.model.nodePath.path: /data/llama is not a directory there" in found["message"]
        start(api, pod)
        view.wait_condition("WeightsResident", "False", {"Verifying"})
