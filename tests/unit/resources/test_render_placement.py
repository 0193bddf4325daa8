"""Engine pods prefer prefetched nodes; prefetch pods miss no node of the engine."""

from __future__ import annotations

from typing import Any

import pytest

from unit.resources.samples import engine_spec, prefetch_spec, warm_model

NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
    }
}
OURS = {
    "weight": 100,
    "podAffinityTerm": {
        "labelSelector": {
            "matchLabels": {"warmpod.io/model": "llama", "warmpod.io/component": "prefetch"}
        },
        "topologyKey": "kubernetes.io/hostname",
    },
}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def test_a_preference_for_prefetched_nodes() -> None:
    assert engine_spec(warm_model())["affinity"] == {"podAffinity": {PREFERRED: [OURS]}}


def test_the_users_affinity_is_kept() -> None:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
    required = [{"topologyKey": "x"}]
    user = {
        "nodeAffinity": NODE_AFFINITY,
        "podAntiAffinity": {"a": []},
        "podAffinity": {
            PREFERRED: [term],
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        },
    }
    affinity = engine_spec(warm_model(pod={"affinity": user}))["affinity"]
    assert affinity == {
        **user,
        "podAffinity": {**user["podAffinity"], PREFERRED: [term, OURS]},
    }


@pytest.mark.parametrize("broken", ["x", {PREFERRED: "x"}, [1]])
def test_a_malformed_affinity_is_left_to_the_api_server(broken: Any) -> None:
    affinity = {"podAffinity": broken}
    assert engine_spec(warm_model(pod={"affinity": affinity}))["affinity"] == affinity


def test_prefetch_pods_follow_the_engine_to_every_node() -> None:
    pod = {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "team", "operator": "Equal", "value": "ml"}],
        "affinity": {"nodeAffinity": NODE_AFFINITY, "podAntiAffinity": {"x": []}},
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "high",
        "runtimeClassName": "nvidia",
        "schedulerName": "other",
        "topologySpreadConstraints": [{"maxSkew": 1}],
    }
    prefetch = prefetch_spec(warm_model(pod=pod))
    engine = engine_spec(warm_model(pod=pod))
    for field in ("nodeSelector", "tolerations", "imagePullSecrets", "priorityClassName"):
        assert prefetch[field] == engine[field] == pod[field]
    assert prefetch["affinity"] == {"nodeAffinity": NODE_AFFINITY}
    for field in ("runtimeClassName", "schedulerName", "topologySpreadConstraints"):
        assert engine[field] == pod[field]
        assert field not in prefetch


def test_prefetch_pods_tolerate_the_taints_of_the_engines_devices() -> None:
    resources = {
        "limits": {
            "nvidia.com/gpu": 1,
            "example.com/rdma": 1,
            "cpu": 1,
            "hugepages-2Mi": "4Mi",
            "example.kubernetes.io/x": 1,
        }
    }
    model = warm_model(engine={"resources": resources}, pod={"tolerations": [{"key": "a"}]})
    assert prefetch_spec(model)["tolerations"] == [
        {"key": "a"},
        {"key": "example.com/rdma", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert engine_spec(model)["tolerations"] == [{"key": "a"}]


def test_nothing_is_said_about_placement_when_the_user_says_nothing() -> None:
    fields = {"nodeSelector", "tolerations", "affinity", "imagePullSecrets", "priorityClassName"}
    assert not fields & prefetch_spec(warm_model()).keys()
