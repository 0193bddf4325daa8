"""The cache only moves forward, whatever order news come in."""

from __future__ import annotations

from copy import deepcopy

from unit.controller.builders import GIB, NAME, NAMESPACE, Object, engine, node, owned, warm_model
from warmpod.controller.apiserver.kinds import CONTROLLER_REVISION, NODE, POD, SERVICE, WARM_MODEL
from warmpod.controller.objects.cache import TOMBSTONES, Cache
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import RevisionView

KEY = (NAMESPACE, NAME)


def pod(version: int, *, uid: str = "uid-a", phase: str = "Running") -> Object:
    body = engine("a").body()
    body["metadata"] |= {"resourceVersion": str(version), "uid": uid}
    body["status"]["phase"] = phase
    return body


def phase(cache: Cache) -> str | None:
    found = cache.get(POD, (NAMESPACE, "a"))
    return getattr(found, "phase", None)


def test_objects_are_found_by_the_model_they_belong_to() -> None:
    cache = Cache()
    assert cache.upsert(WARM_MODEL, warm_model()) == KEY
    assert cache.upsert(POD, pod(1)) == KEY
    assert [view.meta.name for view in cache.owned(POD, KEY)] == ["a"]
    assert cache.owned(POD, (NAMESPACE, "other")) == []
    assert [view.meta.key for view in cache.models()] == [KEY]


def test_older_news_are_ignored() -> None:
    cache = Cache()
    cache.upsert(POD, pod(5, phase="Running"))
    assert cache.upsert(POD, pod(4, phase="Pending")) is None
    assert phase(cache) == "Running"


def test_the_echo_of_our_own_write_is_no_news() -> None:
    cache = Cache()
    assert cache.upsert(POD, pod(5)) == KEY
    assert cache.upsert(POD, pod(5)) is None
    assert phase(cache) == "Running"


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back() -> None:
    cache = Cache()
    cache.upsert(POD, pod(5))
    assert cache.remove(POD, pod(7)) == KEY
    assert cache.upsert(POD, pod(6)) is None
    assert phase(cache) is None
    assert cache.owned(POD, KEY) == []


def test_an_object_whose_label_was_taken_off_and_put_back_is_seen_again() -> None:
    cache = Cache()
    cache.upsert(POD, pod(5))
    assert cache.remove(POD, pod(7)) == KEY, "a watch by label calls it deleted"
    assert cache.upsert(POD, pod(8)) == KEY
    assert phase(cache) == "Running"


def test_a_late_deletion_of_the_predecessor_takes_nothing_away() -> None:
    cache = Cache()
    cache.upsert(POD, pod(9, uid="uid-new"))
    assert cache.remove(POD, pod(8, uid="uid-old")) is None
    assert phase(cache) == "Running"


def test_a_successor_of_the_same_name_is_taken() -> None:
    cache = Cache()
    cache.upsert(POD, pod(5))
    cache.remove(POD, pod(6))
    cache.upsert(POD, pod(7, uid="uid-new"))
    assert phase(cache) == "Running"


def test_a_list_takes_out_what_it_does_not_have() -> None:
    cache = Cache()
    cache.upsert(POD, pod(5))
    assert cache.prune(POD, None, ["uid-else"], version=4) == set(), "newer than the list"
    assert cache.prune(POD, "elsewhere", [], version=9) == set(), "another namespace"
    assert cache.prune(POD, NAMESPACE, ["uid-a"], version=9) == set(), "listed"
    assert cache.prune(POD, NAMESPACE, [], version=9) == {KEY}
    assert phase(cache) is None


def test_a_label_that_moves_moves_the_object() -> None:
    cache = Cache()
    cache.upsert(POD, pod(5))
    moved = pod(6)
    moved["metadata"]["labels"]["warmpod.io/model"] = "other"
    assert cache.upsert(POD, moved) == (NAMESPACE, "other")
    assert cache.owned(POD, KEY) == []
    assert len(cache.owned(POD, (NAMESPACE, "other"))) == 1


def test_memory_of_the_dead_is_bounded() -> None:
    cache = Cache()
    for number in range(TOMBSTONES + 10):
        cache.remove(POD, pod(number, uid=f"uid-{number}"))
    assert len(cache._gone) == TOMBSTONES


def test_projection_drops_what_is_never_read() -> None:
    cache = Cache()
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**owned("llama"), "managedFields": [{"manager": "x"}]},
        "spec": {"ports": []},
        "status": {"loadBalancer": {}},
    }
    before = deepcopy(service)
    cache.upsert(SERVICE, service)
    assert service == before
    body = getattr(cache.get(SERVICE, (NAMESPACE, "llama")), "body", {})
    assert "status" not in body
    assert "managedFields" not in body["metadata"]


def test_revisions_of_a_daemonset_are_not_kept() -> None:
    cache = Cache()
    meta = owned("llama-prefetch-1")
    meta["ownerReferences"] = [{"kind": "DaemonSet", "uid": "uid-ds", "controller": True}]
    obj = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": meta,
        "data": {"x": 1},
    }
    cache.upsert(CONTROLLER_REVISION, obj)
    found = cache.get(CONTROLLER_REVISION, (NAMESPACE, "llama-prefetch-1"))
    assert isinstance(found, RevisionView)
    assert found.text == ""


def test_every_change_is_told() -> None:
    told: list[tuple[object, object]] = []

    def changed(before: object, after: object) -> None:
        told.append(tuple(getattr(view, "phase", None) for view in (before, after)))  # type: ignore[arg-type]

    cache = Cache(changed, changed)
    cache.upsert(POD, pod(5, phase="Pending"))
    cache.upsert(POD, pod(4, phase="Unknown"))
    cache.upsert(POD, pod(6))
    cache.remove(POD, pod(7))
    news = [(None, "Pending"), ("Pending", "Running"), ("Running", None)]
    assert told == [each for each in news for _ in range(2)]
    cache.upsert(POD, pod(8, uid="uid-b"))
    cache.prune(POD, None, (), 9)
    assert told[-1] == ("Running", None)


def test_nodes_belong_to_no_model() -> None:
    cache = Cache()
    assert cache.upsert(NODE, node("n1", "a:1", "b:1", nvidia_com__gpu="8")) is None
    found = cache.get(NODE, ("", "n1"))
    assert isinstance(found, NodeView)
    assert found.images == ("a:1", "b:1")
    assert (found.images_listed, found.kubelet_port) == (2, 10250)
    assert found.memory == 32 * GIB
    assert dict(found.devices) == {"nvidia.com/gpu": 8}
    assert found.allocatable == {"cpu": 8000, "memory": 32 * GIB, "nvidia.com/gpu": 8}
