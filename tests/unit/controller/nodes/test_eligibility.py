"""The scheduler's rules, one row each."""

from __future__ import annotations

from typing import Any

import pytest

from unit.controller.builders import node_view
from warmpod.controller.nodes.eligibility import why_not
from warmpod.controller.nodes.placement import of_template

GPU = {"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}}}


def placement(*terms: Any, **spec: Any) -> Any:
    if terms:
        selector = {"nodeSelectorTerms": list(terms)}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
        spec["affinity"] = {"nodeAffinity": required}
    return of_template({"spec": spec})


def label(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def name(operator: str, value: str) -> dict[str, Any]:
    return {
        "matchFields": [{"key": "metadata.name", "operator": operator, "values": [value]}],
    }


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([label("In", "a", "b")], True),
        ([label("In", "c")], False),
        ([label("In", "a", key="absent")], False),
        ([label("NotIn", "c")], True),
        ([label("NotIn", "a")], False),
        ([label("NotIn", "a", key="absent")], True),
        ([label("Exists")], True),
        ([label("Exists", key="absent")], False),
        ([label("DoesNotExist")], False),
        ([label("DoesNotExist", key="absent")], True),
        ([label("Gt", "4", key="cards")], True),
        ([label("Gt", "8", key="cards")], False),
        ([label("Lt", "9", key="cards")], True),
        ([label("Lt", "8", key="cards")], False),
        ([label("Gt", "4", key="absent")], False),
        ([label("Gt", "4", key="zone")], False),
        ([label("Gt", "four", key="cards")], False),
        ([label("Gt", "4", "5", key="cards")], False),
        ([label("Near", "a")], False),
        ([name("In", "node-1")], True),
        ([name("In", "node-2")], False),
        ([name("NotIn", "node-1")], False),
        ([name("NotIn", "node-2")], True),
        ([label("In", "c"), label("In", "a")], True),
        ([label("In", "a") | name("In", "node-2")], False),
        ([label("In", "a") | name("In", "node-1")], True),
        ([{}], False),
        ([{}, label("In", "a")], True),
        (["malformed"], False),
    ],
)
def test_required_node_affinity(terms: list[Any], matches: bool) -> None:
    node = node_view("node-1", labels={"zone": "a", "cards": "8"})
    assert (why_not(placement(*terms), node) is None) is matches


@pytest.mark.parametrize(
    ("selector", "matches"),
    [({"zone": "a"}, True), ({"zone": "b"}, False), ({"absent": ""}, False), ({}, True)],
)
def test_node_selector(selector: dict[str, str], matches: bool) -> None:
    node = node_view("node-1", labels={"zone": "a"})
    assert (why_not(placement(nodeSelector=selector), node) is None) is matches


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        (None, "a=b:NoSchedule", False),
        (None, "a=b:NoExecute", False),
        (None, "a=b:PreferNoSchedule", True),
        ({"operator": "Exists"}, "a=b:NoSchedule", True),
        ({"operator": "Exists", "effect": "NoExecute"}, "a=b:NoSchedule", False),
        ({"key": "a", "operator": "Exists"}, "a=b:NoSchedule", True),
        ({"key": "c", "operator": "Exists"}, "a=b:NoSchedule", False),
        ({"key": "a", "value": "b"}, "a=b:NoSchedule", True),
        ({"key": "a", "operator": "Equal", "value": "c"}, "a=b:NoSchedule", False),
        ({"key": "a", "value": "b", "effect": "NoSchedule"}, "a=b:NoSchedule", True),
        ({"key": "a", "value": "b", "effect": "NoExecute"}, "a=b:NoSchedule", False),
        ({"key": "a", "operator": "Unheard", "value": "b"}, "a=b:NoSchedule", False),
        # What the DaemonSet controller gives its pods does not count: an engine has none of it.
        (None, "node.kubernetes.io/disk-pressure:NoSchedule", False),
        (None, "node.kubernetes.io/not-ready:NoSchedule", False),
        # Ours goes once the node is prefetched.
        (None, "warmpod.io/not-ready:NoSchedule", True),
    ],
)
def test_taints(toleration: dict[str, str] | None, taint: str, tolerated: bool) -> None:
    node = node_view("node-1", taints=[taint])
    found = why_not(placement(tolerations=[toleration] if toleration else []), node)
    assert (found is None) is tolerated


def test_a_cordoned_node() -> None:
    node = node_view(
        "node-1", cordoned=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"]
    )
    assert why_not(placement(), node) == "cordoned"
    stubborn = placement(tolerations=[{"operator": "Exists"}])
    assert why_not(stubborn, node) is None


@pytest.mark.parametrize(
    ("allocatable", "found"),
    [
        ({}, "with fewer than 2 nvidia.com/gpu"),
        ({"nvidia_com__gpu": "0"}, "with fewer than 2 nvidia.com/gpu"),
        ({"nvidia_com__gpu": "1"}, "with fewer than 2 nvidia.com/gpu"),
        ({"nvidia_com__gpu": "2"}, None),
        ({"nvidia_com__gpu": "8"}, None),
    ],
)
def test_devices(allocatable: dict[str, str], found: str | None) -> None:
    assert why_not(placement(containers=[GPU]), node_view("node-1", **allocatable)) == found


def test_a_device_opens_nodes_that_are_tainted_with_its_name() -> None:
    node = node_view("node-1", taints=["nvidia.com/gpu=present:NoSchedule"], nvidia_com__gpu="8")
    assert why_not(placement(containers=[GPU]), node) is None
    assert why_not(placement(), node) == "with the taint nvidia.com/gpu=present:NoSchedule"


def test_devices_of_all_containers_count_and_other_resources_do_not() -> None:
    found = placement(containers=[GPU, GPU, {"resources": {"requests": {"memory": "1Gi"}}}])
    assert found.devices == (("nvidia.com/gpu", 4),)


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": "zone=a"},
        {"affinity": []},
        {"affinity": {"nodeAffinity": "none"}},
        {"tolerations": "all"},
        {"tolerations": [None]},
        {"containers": [{"resources": None}]},
        {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "many"}}}]},
    ],
)
def test_what_is_malformed_is_left_to_the_api_server(spec: dict[str, Any]) -> None:
    assert why_not(placement(**spec), node_view("node-1")) is None


def test_equal_placements_are_one() -> None:
    one = placement(label("In", "a"), containers=[GPU], nodeSelector={"b": "1", "a": "2"})
    other = placement(label("In", "a"), containers=[GPU], nodeSelector={"a": "2", "b": "1"})
    assert len({one, other}) == 1
