"""Pods that hang because a node cannot give them a volume."""

from dataclasses import replace
from typing import Any

import pytest

from unit.controller.builders import (
    NOW,
    PodWrapper,
    World,
    ago,
    engine,
    prefetch,
    warm_model,
)
from warmpod.controller.diagnosis import mounts
from warmpod.controller.diagnosis.mount_events import PAGES, SECONDS, MountEvents

NO_DIRECTORY = (
    'MountVolume.SetUp failed for volume "{}" : hostPath type check failed: {} is not a directory'
)
NO_SECRET = 'MountVolume.SetUp failed for volume "tls" : secret "engine-tls" not found'
NO_SUB_PATH = 'failed to create subPath directory for volumeMount "{}" of container "agent"'


def creating(pod: PodWrapper, since: str = ago(minutes=1)) -> PodWrapper:
    return pod.scheduled(since=since).waiting("main", "ContainerCreating")


def world(model: dict[str, Any] | None = None, *more: dict[str, Any]) -> World:
    body = warm_model()
    body["spec"]["model"] = model or {"nodePath": {"path": "/data/llama"}}
    body["spec"]["additionalModels"] = list(more)
    return World(body).store()


def prefetching(found: World, message: str, pod: PodWrapper | None = None) -> World:
    found = found.prefetching(1, pod or creating(prefetch()))
    return replace(found, unmounted={found.prefetch_pods[0].meta.uid: message})


def starting(message: str, pod: PodWrapper | None = None) -> World:
    """Prefetched, with one engine pod that hangs."""
    found = world().prefetching(1, prefetch().resident()).deployed(pod or creating(engine()))
    return replace(found, unmounted={found.engine_pods[0].meta.uid: message})


DRAFT = {"name": "draft", "nodePath": {"path": "/data/draft/"}}
CLAIM = {"persistentVolumeClaim": {"claimName": "models", "path": "llama/1"}}
PODS = {
    "path of the model": (
        prefetching(world(), NO_DIRECTORY.format("warmpod-model", "/data/llama")),
        ("PathMismatch", "spec.model.nodePath.path: /data/llama is not a directory"),
    ),
    "path of an additional model": (
        prefetching(world(None, DRAFT), NO_DIRECTORY.format("warmpod-model-draft", "/data/draft/")),
        ("PathMismatch", "spec.additionalModels[0].nodePath.path: /data/draft/ is not"),
    ),
    "path of the engine": (
        starting(NO_DIRECTORY.format("warmpod-weights", "/data/llama")),
        ("PathMismatch", "spec.model.nodePath.path: /data/llama"),
    ),
    "a path that is ours": (
        prefetching(world(), NO_DIRECTORY.format("warmpod-node", "/dev/shm/warmpod")),
        ("VolumeMountFailed", "volume warmpod-node: hostPath type check failed: /dev/shm/warmpod"),
    ),
    "secret of the user": (
        starting(NO_SECRET),
        ("VolumeMountFailed", 'volume tls: secret "engine-tls" not found; see: kubectl -n models'),
    ),
    "words without a volume": (
        starting("Unable to attach or mount volumes: unmounted volumes=[tls]"),
        ("VolumeMountFailed", "unmounted volumes=[tls]; see: kubectl -n models describe pod"),
    ),
    "path in a claim": (
        prefetching(
            world(CLAIM),
            "",
            prefetch().waiting(
                "agent", "CreateContainerConfigError", NO_SUB_PATH.format("warmpod-model")
            ),
        ),
        ("PathMismatch", "spec.model.persistentVolumeClaim.path: llama/1 is not in claim models"),
    ),
    "path in another volume": (
        starting(
            "",
            engine().waiting(
                "engine", "CreateContainerConfigError", NO_SUB_PATH.format("warmpod-weights")
            ),
        ),
        ("VolumeMountFailed", "volume warmpod-weights: failed to create subPath directory"),
    ),
}


@pytest.mark.parametrize("name", PODS)
def test_what_a_pod_lacks_is_named(name: str) -> None:
    found, (reason, words) = PODS[name]
    ready = found.conditions()["Ready"]
    assert ready["reason"] == reason, ready["message"]
    assert words in ready["message"]


def test_a_missing_directory_is_what_keeps_the_images_away() -> None:
    found = prefetching(world(), NO_DIRECTORY.format("warmpod-model", "/data/llama"))
    prefetched = found.conditions()["Prefetched"]
    assert (prefetched["status"], prefetched["reason"]) == ("False", "PathMismatch")
    assert "/data/llama is not a directory" in prefetched["message"]


NOT_HANGING = {
    "only just scheduled": creating(engine(), ago(seconds=19)),
    "not scheduled": engine().waiting("main", "ContainerCreating"),
    "has its volumes": creating(engine()).condition("PodReadyToStartContainers", "True"),
    "pulls an image": creating(engine()).waiting("main", "ImagePullBackOff"),
    "one container ran": creating(engine()).terminated("weights", 0, init=True),
    "is going": creating(engine()).gone(),
}


@pytest.mark.parametrize("name", NOT_HANGING)
def test_other_pods_are_left_alone(name: str) -> None:
    assert not list(mounts.hanging([NOT_HANGING[name].view()], NOW))


def test_a_hanging_pod_is_looked_at_again() -> None:
    found = world().prefetching(1, creating(prefetch()))
    assert found.plan().requeue_after == 15
    only_just = world().prefetching(1, creating(prefetch(), ago(seconds=13)))
    assert only_just.plan().requeue_after == 7


def test_it_may_go_away_by_itself_for_three_minutes() -> None:
    for minutes, stalled in ((3, "False"), (4, "True")):
        pod = creating(prefetch(), ago(minutes=minutes))
        found = prefetching(world(), NO_SECRET, pod)
        assert found.conditions()["Stalled"]["status"] == stalled


def event(message: str, last: str = "", uid: str = "u", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"kind": "Pod", "uid": uid},
        "message": message,
        "lastTimestamp": last or ago(seconds=10),
        **fields,
    }


VAGUE = "Unable to attach or mount volumes: unmounted volumes=[tls]"
EVENTS = {
    "none": ([], {}),
    "the newest": (
        [event("b", ago(seconds=5)), event("a", ago(seconds=9)), event("c", uid="v")],
        {"u": "b", "v": "c"},
    ),
    "one that says why": ([event(VAGUE, ago(seconds=5)), event(NO_SECRET)], {"u": NO_SECRET}),
    "one that does not": ([event(VAGUE)], {"u": VAGUE}),
    "what was long ago": ([event("a", ago(minutes=4))], {}),
    "what is told of rarely": (
        [event("a", ago(minutes=7), firstTimestamp=ago(minutes=40))],
        {"u": "a"},
    ),
    "what was told of rarely": ([event("a", ago(minutes=9), firstTimestamp=ago(minutes=40))], {}),
    "a series": (
        [event("a", ago(minutes=4), series={"lastObservedTime": ago(seconds=1)})],
        {"u": "a"},
    ),
    "what passes by itself": (
        [event("failed to sync configmap cache: timed out waiting for the condition")],
        {},
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_what_kubelets_said_last(name: str) -> None:
    events, expected = EVENTS[name]
    assert mounts.failures(events, NOW) == expected


class Events:
    """An API server with more events than anybody reads."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.pages = 0

    async def list_pages(self, kind: object, namespace: str, *, fields: str) -> Any:
        self.asked.append(fields)
        while True:
            self.pages += 1
            yield [event(NO_SECRET, "2999-01-01T00:00:00Z")], 1


async def test_a_namespace_is_asked_about_now_and_then() -> None:
    now, kube = [0.0], Events()
    asking = MountEvents(kube, lambda: now[0])  # type: ignore[arg-type]
    for _ in range(3):
        assert await asking.failures("models") == {"u": NO_SECRET}
    assert kube.asked == [
        "involvedObject.kind=Pod,reason=FailedMount",
        "involvedObject.kind=Pod,reason=FailedAttachVolume",
    ]
    assert kube.pages == 2 * PAGES
    now[0] += SECONDS
    await asking.failures("models")
    assert len(kube.asked) == 4
