"""Engine pods prefer prefetched nodes; prefetch pods miss no node of the engine."""

from __future__ import annotations

from typing import Any

import pytest

from unit.resources.samples import engine_spec, prefetch_spec, rendered, warm_model
from warmpod.api import WarmModel

NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
    }
}
NOT_READY = {"key": "warmpod.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def ours(model: WarmModel) -> dict[str, Any]:
    resident = {
        "warmpod.io/model": "llama",
        "warmpod.io/component": "prefetch",
        "warmpod.io/prefetch": rendered(model).prefetch_hash,
        "warmpod.io/resident": "true",
    }
    term = {
        "labelSelector": {"matchLabels": resident},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"weight": 100, "podAffinityTerm": term}


def test_a_preference_for_nodes_that_hold_the_weights() -> None:
    model = warm_model()
    assert engine_spec(model)["affinity"] == {"podAffinity": {PREFERRED: [ours(model)]}}


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
    model = warm_model(pod={"affinity": user})
    assert engine_spec(model)["affinity"] == {
        **user,
        "podAffinity": {**user["podAffinity"], PREFERRED: [term, ours(model)]},
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
    for field in ("nodeSelector", "imagePullSecrets", "priorityClassName"):
        assert prefetch[field] == engine[field] == pod[field]
    assert engine["tolerations"] == pod["tolerations"]
    assert prefetch["tolerations"] == [*engine["tolerations"], NOT_READY]
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
        NOT_READY,
    ]
    assert engine_spec(model)["tolerations"] == [{"key": "a"}]


def test_nothing_is_said_about_placement_when_the_user_says_nothing() -> None:
    fields = {"nodeSelector", "tolerations", "affinity", "imagePullSecrets", "priorityClassName"}
    assert fields & prefetch_spec(warm_model()).keys() == {"tolerations"}
    assert prefetch_spec(warm_model())["tolerations"] == [NOT_READY]
