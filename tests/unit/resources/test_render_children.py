"""The other children, and what all of them have in common."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from unit.resources.samples import rendered, warm_model
from warmpod.resources import (
    daemonset,
    deployment,
    disruption_budget,
    images,
    names,
    rbac,
    revision,
    service,
)

MODEL = warm_model()
REVISION = rendered(MODEL)
CHILDREN: list[dict[str, Any]] = [
    revision.build(MODEL, REVISION),
    deployment.build(MODEL, REVISION, 2),
    daemonset.build(MODEL, REVISION),
    service.build(MODEL),
    disruption_budget.build(MODEL, 2),
    rbac.role(MODEL),
    rbac.role_binding(MODEL),
    *filter(None, [rbac.service_account(MODEL)]),
]
BY_KIND = {child["kind"]: child for child in CHILDREN}


@pytest.mark.parametrize("kind", BY_KIND)
def test_every_child_is_owned_labelled_and_in_the_namespace(kind: str) -> None:
    metadata = BY_KIND[kind]["metadata"]
    assert metadata["namespace"] == "models"
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "warmpod.io/v1alpha1",
            "kind": "WarmModel",
            "name": "llama",
            "uid": "uid-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert metadata["labels"]["warmpod.io/model"] == "llama"
    assert metadata["labels"]["warmpod.io/component"] in ("engine", "prefetch")
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "warmpod"
    assert set(metadata) == {"name", "namespace", "labels", "ownerReferences"}


def test_names() -> None:
    assert {kind: child["metadata"]["name"] for kind, child in BY_KIND.items()} == {
        "ControllerRevision": f"llama-{REVISION.hash}",
        "Deployment": "llama",
        "DaemonSet": f"llama-prefetch-{REVISION.prefetch_hash}",
        "Service": "llama",
        "PodDisruptionBudget": "llama",
        "Role": "llama-warmpod",
        "RoleBinding": "llama-warmpod",
        "ServiceAccount": "llama-warmpod",
    }


def test_the_longest_name_still_fits() -> None:
    model = warm_model(name="m" * 50)
    made = rendered(model)
    for name in (names.service_account(model), made.name):
        assert len(name) <= 63
    # Nobody makes a label of it, and names of pods are cut to fit.
    assert len(names.daemonset(model, made.prefetch_hash)) <= 253


def test_deployment() -> None:
    spec = BY_KIND["Deployment"]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    assert spec["progressDeadlineSeconds"] == 3600
    assert spec["revisionHistoryLimit"] == 3
    assert spec["template"] is REVISION.engine_template


def test_a_rollout_with_old_pods_given_up_first() -> None:
    strategy = deployment.Strategy(max_surge=0, max_unavailable=2)
    spec = deployment.build(MODEL, REVISION, 5, strategy)["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 2}
    assert spec["minReadySeconds"] == deployment.MIN_READY_SECONDS


def test_a_rollout_that_waits_for_a_verdict() -> None:
    spec = deployment.build(MODEL, REVISION, 5, deployment.Strategy(held=True))["spec"]
    assert spec["minReadySeconds"] == deployment.HELD_SECONDS
    assert spec["minReadySeconds"] < spec["progressDeadlineSeconds"] < 2**31
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_revision_has_the_annotations_that_are_given_and_no_others() -> None:
    assert "annotations" not in revision.build(MODEL, REVISION, {})["metadata"]
    found = revision.build(MODEL, REVISION, {"warmpod.io/previous": "x"})
    assert found["metadata"]["annotations"] == {"warmpod.io/previous": "x"}
    assert revision.parse(found) == REVISION


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("Deployment", {"warmpod.io/model", "warmpod.io/component"}),
        ("DaemonSet", {"warmpod.io/model", "warmpod.io/component", "warmpod.io/prefetch"}),
    ],
)
def test_selectors_match_the_pods_and_never_change(kind: str, labels: set[str]) -> None:
    spec = BY_KIND[kind]["spec"]
    selector = spec["selector"]["matchLabels"]
    assert set(selector) == labels
    assert selector.items() <= spec["template"]["metadata"]["labels"].items()


def test_the_daemonset_of_a_template_never_changes() -> None:
    body = BY_KIND["DaemonSet"]
    assert body["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert body["metadata"]["labels"]["warmpod.io/prefetch"] == REVISION.prefetch_hash
    template = copy.deepcopy(body["spec"]["template"])
    assert template["metadata"]["labels"].pop("warmpod.io/prefetch") == REVISION.prefetch_hash
    assert template == REVISION.prefetch_template


def test_revisions_with_the_same_prefetch_pods_share_them() -> None:
    other = warm_model(engine={"args": ["--max-model-len=8192"]}, warmup={"maxRounds": 7})
    made = rendered(other)
    assert made.hash != REVISION.hash
    assert daemonset.build(other, made) == BY_KIND["DaemonSet"]


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"image": "other:1"}},
        {"engine": {"image": "other:1"}},
        {"weights": {"size": "1Gi"}},
        {"pod": {"nodeSelector": {"a": "b"}}},
        {"additionalModels": [{"name": "draft", "image": "draft:1"}]},
    ],
)
def test_other_prefetch_pods_have_a_daemonset_of_their_own(spec: dict[str, Any]) -> None:
    other = warm_model(**spec)
    body = daemonset.build(other, rendered(other))
    assert body["metadata"]["name"] != BY_KIND["DaemonSet"]["metadata"]["name"]


def test_the_service_sees_serving_pods_at_whatever_port_they_have() -> None:
    spec = BY_KIND["Service"]["spec"]
    assert spec["selector"] == names.serving_labels("llama")
    assert spec["ports"] == [
        {"name": "http", "port": 8000, "protocol": "TCP", "targetPort": "http"}
    ]


def test_the_status_selector_says_the_same() -> None:
    assert names.serving_selector("llama") == (
        "warmpod.io/model=llama,warmpod.io/component=engine,warmpod.io/role=serving"
    )


def test_a_pod_that_is_not_warm_never_blocks_a_drain() -> None:
    spec = BY_KIND["PodDisruptionBudget"]["spec"]
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert spec["selector"]["matchLabels"] == names.serving_labels("llama")


@pytest.mark.parametrize(("serving", "kept"), [(0, 0), (1, 0), (2, 1), (5, 4)])
def test_one_serving_pod_at_a_time_may_be_evicted(serving: int, kept: int) -> None:
    """Whatever the Deployment's replicas are, which count standby pods, too."""
    spec = disruption_budget.build(MODEL, serving)["spec"]
    assert spec["minAvailable"] == kept
    assert "maxUnavailable" not in spec


def test_a_pod_may_report_and_look_at_its_model_and_no_more() -> None:
    assert BY_KIND["Role"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
        {
            "apiGroups": ["warmpod.io"],
            "resources": ["warmmodels"],
            "resourceNames": ["llama"],
            "verbs": ["get"],
        },
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["list"],
        },
        {
            "apiGroups": [""],
            "resources": ["namespaces"],
            "resourceNames": ["models"],
            "verbs": ["get"],
        },
    ]
    assert BY_KIND["ServiceAccount"]["automountServiceAccountToken"] is False


def test_an_account_that_exists_is_bound_and_not_made() -> None:
    model = warm_model(pod={"serviceAccountName": "team-warmpod"})
    assert rbac.service_account(model) is None
    assert rbac.role_binding(model)["subjects"] == [
        {"kind": "ServiceAccount", "name": "team-warmpod", "namespace": "models"}
    ]


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("vllm", "vllm@sha256:d"),
        ("vllm:v1", "vllm@sha256:d"),
        ("a.b:5000/x/vllm", "a.b:5000/x/vllm@sha256:d"),
        ("a.b:5000/x/vllm:v1", "a.b:5000/x/vllm@sha256:d"),
        ("x/vllm@sha256:e", "x/vllm@sha256:e"),
        ("x/vllm:v1@sha256:e", "x/vllm:v1@sha256:e"),
    ],
)
def test_pinned_images(image: str, pinned: str) -> None:
    assert images.pin(image, "sha256:d") == pinned
    assert images.pin(image, None) == image


def test_the_key_of_the_nodes_copy() -> None:
    digest = "sha256:" + "ab" * 32
    assert images.weights_key("x:1", digest) == "ab" * 16
    assert images.weights_key(f"x@{digest}", None) == "ab" * 16
    assert images.weights_key("x:1", None).startswith("ref-")
    assert images.weights_key("x:1", None) != images.weights_key("x:2", None)
