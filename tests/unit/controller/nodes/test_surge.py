"""Room for one pod more: the scheduler's sums as tables, and whom they are asked of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from unit.controller.builders import node_view
from unit.controller.fake_kube import FakeKube
from warmpod.controller.apiserver.kube import ApiError
from warmpod.controller.nodes.surge import NodeUse, PodUse, judge, places, requests_of
from warmpod.controller.nodes.surge_nodes import FORBIDDEN_SECONDS, KNOWN_SECONDS, SurgeNodes
from warmpod.controller.objects.node_view import NodeView

GPU = "nvidia.com/gpu"
MODEL = ("models", "llama")
GIB = 1024**3


def container(*, always: bool = False, limits: Any = None, **requests: str) -> dict[str, Any]:
    found: dict[str, Any] = {"resources": {"requests": requests, "limits": limits or {}}}
    return found | ({"restartPolicy": "Always"} if always else {})


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({"containers": [container(cpu="1"), container(cpu="500m")]}, 1500, id="sum"),
        pytest.param({"containers": [container(limits={"cpu": "2"})]}, 2000, id="limit alone"),
        pytest.param(
            {"containers": [container(limits={"cpu": "2"}, cpu="1")]}, 1000, id="request wins"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]},
            3000,
            id="an init container needs more",
        ),
        pytest.param(
            {"containers": [container(cpu="2")], "initContainers": [container(cpu="1")]},
            2000,
            id="an init container needs less",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="500m", always=True)],
            },
            1500,
            id="a sidecar stays",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="1", always=True), container(cpu="2")],
            },
            3000,
            id="an init container after a sidecar",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="2"), container(cpu="1", always=True)],
            },
            2000,
            id="an init container before a sidecar",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "3"}}},
            3000,
            id="of the pod as a whole",
        ),
        pytest.param({"containers": [container(cpu="many")]}, 0, id="malformed"),
        pytest.param({"containers": "x", "initContainers": {}, "overhead": 1}, 0, id="odd"),
    ],
)
def test_requests(spec: dict[str, Any], cpu: int) -> None:
    found = requests_of(spec)
    assert found.get("cpu", 0) == cpu
    assert found["pods"] == 1


def use(*pods: PodUse, name: str = "n1", **allocatable: str) -> NodeUse:
    return NodeUse(name, node_view(name, pods="10", **allocatable).allocatable, pods)


def taken(gpus: int, model: tuple[str, str] | None = None) -> PodUse:
    return PodUse(model, {GPU: gpus, "pods": 1})


@pytest.mark.parametrize(
    ("wanted", "node", "count"),
    [
        pytest.param({GPU: 1}, use(nvidia_com__gpu="8"), 8, id="empty"),
        pytest.param({GPU: 2}, use(nvidia_com__gpu="7"), 3, id="rounded down"),
        pytest.param({GPU: 1}, use(taken(3), nvidia_com__gpu="8"), 5, id="others take some"),
        pytest.param({GPU: 1}, use(taken(3, MODEL), nvidia_com__gpu="8"), 8, id="its own do not"),
        pytest.param({GPU: 1}, use(taken(9), nvidia_com__gpu="8"), 0, id="more than there is"),
        pytest.param({GPU: 1}, use(), 0, id="no such resource"),
        pytest.param({"cpu": 3000, GPU: 1}, use(nvidia_com__gpu="8"), 2, id="the scarcest counts"),
        pytest.param({"memory": 20 * GIB}, use(), 1, id="memory"),
        pytest.param({"pods": 1}, use(*[taken(0)] * 10), 0, id="as many pods as it may have"),
        pytest.param({"pods": 1, GPU: 0}, use(), 10, id="none of a thing is always there"),
    ],
)
def test_places(wanted: dict[str, int], node: NodeUse, count: int) -> None:
    assert places(MODEL, {"pods": 1, **wanted}, node).count == count


def test_the_message_has_the_numbers() -> None:
    wanted = {GPU: 1, "cpu": 500, "memory": 4 * GIB, "pods": 1}
    full = places(MODEL, wanted, use(taken(7), nvidia_com__gpu="8"))
    found = judge(wanted, 2, [full], 3)
    assert not found.fits
    assert found.why == (
        "one pod more than asked for makes 2 (500m cpu, 4.0Gi memory, 1 nvidia.com/gpu each), and "
        "there are places for 1 on 1 of 3 nodes: n1 is short of nvidia.com/gpu (1 of 8 not taken "
        "by others)"
    )
    assert judge(wanted, 1, [full], 1).fits
    assert found.places == 1
    assert not judge(wanted, 1, [], 0).fits


# --- Whom it is asked of --------------------------------------------------------------------------


def node(name: str, gpus: int) -> NodeView:
    return node_view(name, pods="10", nvidia_com__gpu=str(gpus))


def bound(name: str, namespace: str = "others") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {"containers": [container(limits={GPU: "1"})]},
    }


class Asking:
    def __init__(self) -> None:
        self.kube = FakeKube()
        self.seconds = 0.0
        self.nodes = SurgeNodes(self.kube, clock=lambda: self.seconds)  # type: ignore[arg-type]

    def room(self, needed: int, *nodes: NodeView, own: frozenset[str] = frozenset()) -> bool | None:
        wanted = {GPU: 1, "pods": 1}
        found = asyncio.run(self.nodes.room(MODEL, wanted, needed, nodes, own))
        return None if found is None else found.fits

    def asked(self) -> list[str]:
        """Names of the nodes, in the order in which they were asked about."""
        return [
            call[2].partition("spec.nodeName=")[2].partition(",")[0]
            for call in self.kube.calls
            if call[0] == "list"
        ]


def test_nodes_are_asked_one_by_one_until_there_is_room() -> None:
    asking = Asking()
    assert asking.room(5, node("small", 1), node("large", 8))
    assert asking.asked() == ["large"]


def test_nodes_with_pods_of_the_model_come_first() -> None:
    asking = Asking()
    asking.room(2, node("small", 1), node("large", 8), own=frozenset({"small"}))
    assert asking.asked() == ["small", "large"]


def test_pods_of_all_namespaces_count() -> None:
    asking = Asking()
    asking.kube.put(bound("a"))
    asking.kube.put(bound("b", "more"))
    assert asking.room(6, node("n", 8))
    assert not Asking().room(9, node("n", 8))
    assert not asking.room(7, node("n", 8))


def test_an_answer_is_believed_for_a_while() -> None:
    asking = Asking()
    asking.room(1, node("n", 8))
    asking.room(1, node("n", 8))
    assert asking.asked() == ["n"]
    asking.seconds = KNOWN_SECONDS + 1
    asking.room(1, node("n", 8))
    assert asking.asked() == ["n", "n"]


def test_without_the_right_nothing_is_known_and_it_is_rarely_tried() -> None:
    asking = Asking()
    asking.kube.fail("list", "Pod", *[ApiError(403, "Forbidden", "no")] * 2)
    assert asking.room(1, node("n", 8)) is None
    assert asking.room(1, node("n", 8)) is None
    assert len(asking.asked()) == 1
    asking.seconds = FORBIDDEN_SECONDS + 1
    assert asking.room(1, node("n", 8)) is None
    assert len(asking.asked()) == 2


def test_other_errors_are_the_callers() -> None:
    asking = Asking()
    asking.kube.fail("list", "Pod", ApiError(500, "InternalError", "no"))
    with pytest.raises(ApiError):
        asking.room(1, node("n", 8))
