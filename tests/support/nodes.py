"""Nodes that kwok plays, for tests with more nodes and pods than one machine can run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from support.api import STRATEGIC_PATCH, Api, JsonObject
from support.models import ModelView, condition_of
from support.waiting import wait_until

LABEL = {"tests.warmpod.io/fake": "true"}
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
# A pod with this, and only such a pod, lands on a fake node.
ON_FAKE_NODES: JsonObject = {
    "nodeSelector": LABEL,
    "tolerations": [{"key": TAINT["key"], "operator": "Exists"}],
}


# A pod that tolerates this is scheduled by kwok's rules, and then waits for the test to start it.
BY_HAND: JsonObject = {"key": "tests.warmpod.io/by-hand", "operator": "Exists"}


def only_on(prefix: str) -> JsonObject:
    """Where pods go that are for the fake nodes of that prefix only."""
    return {**ON_FAKE_NODES, "nodeSelector": {"tests.warmpod.io/nodes": prefix}}


REPORTS = {
    "prefetch": ("warmpod.io/Resident", "Resident"),
    "engine": ("warmpod.io/Warm", "Warm"),
}


@contextmanager
def fake_nodes(
    api: Api,
    count: int,
    prefix: str = "fake",
    *,
    belongs: str = "",
    resources: Mapping[str, str] | None = None,
    taints: Iterable[JsonObject] = (),
) -> Iterator[list[str]]:
    """Nodes that exist for the length of a test; gives their names. With `resources`, such as
    `{"memory": "16Gi"}`, pods can have that much there, and no pod lands there that does not ask
    for `prefix` (`only_on`), or for `belongs`, another prefix whose nodes they join."""
    labels = LABEL if resources is None else only_on(belongs or prefix)["nodeSelector"]
    names = [f"{prefix}-{number}" for number in range(count)]
    for name in names:
        api.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": labels | {"kubernetes.io/hostname": name},
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                },
                "spec": {"taints": [TAINT, *taints]},
            }
        )
    try:
        for name in names:
            wait_until(
                f"{name} is ready",
                lambda name=name: (
                    condition_of(api.get("Node", name), "Ready").get("status") == "True"
                ),
                timeout_s=60,
            )
            if resources:
                change_status(api, name, {"capacity": resources, "allocatable": resources})
        yield names
    finally:
        for name in names:
            api.delete("Node", name)


def change_status(api: Api, node: str, status: JsonObject) -> None:
    api.patch("Node", node, "", {"status": status}, subresource="status")


def list_images(api: Api, node: str, images: Iterable[str]) -> None:
    """As a kubelet does that finds these images, and no other, on its node."""
    change_status(api, node, {"images": [{"names": [image], "sizeBytes": 1} for image in images]})


def start(api: Api, pod: JsonObject) -> None:
    """Starts a pod that kwok leaves to the test (`BY_HAND`), as if its images were pulled now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod["spec"]["containers"]
    ]
    status = {
        "phase": "Running",
        "containerStatuses": containers,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
    }
    metadata = pod["metadata"]
    api.patch(
        "Pod",
        metadata["name"],
        metadata["namespace"],
        {"status": status},
        content_type=STRATEGIC_PATCH,
        subresource="status",
    )


def play(api: Api, pods: Iterable[JsonObject]) -> None:
    """Says in the pods' place that they are resident and warm: nothing runs on a fake node."""
    for pod in pods:
        type_, reason = REPORTS[pod["metadata"]["labels"]["warmpod.io/component"]]
        if condition_of(pod, type_).get("status") != "True" and pod["spec"].get("nodeName"):
            report(api, pod, type_, reason)


def play_until(api: Api, view: ModelView, holds: Callable[[], object]) -> None:
    """Plays the model's pods until something holds."""

    def played() -> object:
        play(api, (*view.prefetch_pods(), *view.engine_pods()))
        return holds()

    wait_until(f"{view.name} gets there", played, timeout_s=150, describe=view.conditions)


def report(
    api: Api,
    pod: JsonObject,
    type_: str,
    reason: str,
    status: str = "True",
    message: str = "played by a test",
) -> None:
    """Says in a pod's place what its agent or sidecar would say: nothing runs on a fake node."""
    metadata = pod["metadata"]
    condition = {"type": type_, "status": status, "reason": reason, "message": message}
    api.patch(
        "Pod",
        metadata["name"],
        metadata["namespace"],
        {"status": {"conditions": [condition]}},
        content_type=STRATEGIC_PATCH,
        subresource="status",
    )
