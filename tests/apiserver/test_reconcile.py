"""The installed operator against the API server, with nodes and pods that kwok plays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.api import Api, JsonObject
from support.models import ModelView, warm_model, with_engine
from support.nodes import ON_FAKE_NODES, fake_nodes, play_until, report
from support.waiting import wait_until

Create = Callable[..., ModelView]

CHILDREN = (
    "DaemonSet",
    "Deployment",
    "Service",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "PodDisruptionBudget",
    "ControllerRevision",
)


@pytest.fixture(scope="module", autouse=True)
def nodes(api: Api) -> Iterator[list[str]]:
    with fake_nodes(api, 2) as names:
        yield names


@pytest.fixture
def ready(api: Api, namespace: str) -> Create:
    """Applies a WarmModel on the fake nodes and plays its pods until it is Ready."""

    def apply(name: str, grace: int = 90, **spec: object) -> ModelView:
        pod = {**ON_FAKE_NODES, "terminationGracePeriodSeconds": grace}
        api.apply(warm_model(name, namespace, pod=pod, **spec))
        view = ModelView(api, name, namespace)
        play_until(api, view, lambda: view.condition("Ready").get("status") == "True")
        return view

    return apply


def test_engines_wait_for_the_first_verified_weights(api: Api, namespace: str) -> None:
    api.apply(warm_model("held", namespace, pod=ON_FAKE_NODES))
    view = ModelView(api, "held", namespace)
    wait_until("both nodes prefetch", lambda: len(view.prefetch_pods()) == 2, timeout_s=60)
    view.wait_condition("Ready", "False", {"WaitingForWeights"})
    assert api.find("Deployment", "held", namespace) is None
    report(api, view.prefetch_pods()[0], "warmpod.io/Resident", "Resident")
    wait_until(
        "the engines are started", lambda: api.find("Deployment", "held", namespace), timeout_s=60
    )


def test_no_eligible_node_holds_nothing_back(api: Api, namespace: str) -> None:
    """An autoscaler adds nodes for pods that wait, so they must be there."""
    nowhere = {"nodeSelector": {"tests.warmpod.io/none": "true"}}
    api.apply(warm_model("nowhere", namespace, pod=nowhere))
    view = ModelView(api, "nowhere", namespace)
    wait_until("an engine pod waits for a node", view.engine_pods, timeout_s=60)
    view.wait_condition("Ready", "False", {"Unschedulable", "NoEligibleNodes"})


def test_scale_subresource_scales_the_deployment(api: Api, ready: Create, namespace: str) -> None:
    # Nothing runs on a fake node, so nobody can say that a pod is idle: the shortest grace period.
    view = ready("scaled", grace=30)
    api.patch("WarmModel", "scaled", namespace, {"spec": {"replicas": 3}}, subresource="scale")
    play_until(api, view, lambda: view.get()["status"].get("readyReplicas") == 3)
    scale = api.request(
        "GET", f"apis/warmpod.io/v1alpha1/namespaces/{namespace}/warmmodels/scaled/scale"
    )
    assert scale["status"]["replicas"] == 3
    assert "warmpod.io/role=serving" in scale["status"]["selector"]
    api.patch("WarmModel", "scaled", namespace, {"spec": {"replicas": 0}}, subresource="scale")
    wait_until("no pod is left", lambda: not view.engine_pods(), timeout_s=120)
    assert view.get()["status"]["selector"] != ""


@pytest.mark.parametrize("kind", CHILDREN)
def test_deleted_child_comes_back(api: Api, ready: Create, namespace: str, kind: str) -> None:
    ready("whole")
    (child,) = children(api, kind, namespace, "whole")
    metadata = child["metadata"]
    api.delete(kind, metadata["name"], namespace)
    wait_until(
        f"the {kind} is back",
        lambda: [
            found
            for found in children(api, kind, namespace, "whole")
            if found["metadata"]["uid"] != metadata["uid"]
        ],
        timeout_s=60,
    )


def test_drift_of_a_child_is_undone(api: Api, ready: Create, namespace: str) -> None:
    ready("drift")
    for body in ({"spec": {"replicas": 5}}, {"spec": {"progressDeadlineSeconds": 7}}):
        before = api.get("Deployment", "drift", namespace)["spec"]
        api.patch("Deployment", "drift", namespace, body)
        wait_until(
            "the Deployment is as it was",
            lambda before=before: api.get("Deployment", "drift", namespace)["spec"] == before,
            timeout_s=60,
        )


def test_nothing_is_written_when_nothing_changed(api: Api, ready: Create, namespace: str) -> None:
    view = ready("quiet")
    before = versions(api, namespace)
    # Two events that lead to a reconcile and need no write.
    api.patch("WarmModel", "quiet", namespace, {"metadata": {"labels": {"touched": "yes"}}})
    another = ready("another")
    wait_until("the other is settled", lambda: another.get()["status"], timeout_s=30)
    after = versions(api, namespace)
    assert {key: after[key] for key in before} == before
    assert view.condition("Ready")["status"] == "True"


def test_going_back_is_choosing_an_older_revision(api: Api, ready: Create, namespace: str) -> None:
    view = ready("back")
    first = view.get()["status"]["revision"]
    model = warm_model("back", namespace, pod=ON_FAKE_NODES)
    api.apply(with_engine(model, args=["--max-model-len=128"]))
    play_until(api, view, lambda: settled_on_another(view, first))
    api.apply(model)
    play_until(api, view, lambda: settled_on(view, first))
    assert len(children(api, "ControllerRevision", namespace, "back")) == 2


def test_new_node_is_prefetched_without_a_touch(api: Api, ready: Create, namespace: str) -> None:
    view = ready("grows")
    with fake_nodes(api, 1, prefix="new"):
        play_until(api, view, lambda: view.get()["status"]["nodes"].get("resident") == 3)


def settled_on(view: ModelView, revision: str) -> bool:
    done = view.condition("Reconciling").get("reason") == "UpToDate"
    return done and view.get()["status"]["revision"] == revision


def settled_on_another(view: ModelView, revision: str) -> bool:
    done = view.condition("Reconciling").get("reason") == "UpToDate"
    return done and view.get()["status"]["revision"] != revision


def children(api: Api, kind: str, namespace: str, model: str) -> list[JsonObject]:
    """Without those of its children: a DaemonSet keeps ControllerRevisions with its labels."""
    return [
        found
        for found in api.list(kind, namespace, f"warmpod.io/model={model}")
        if found["metadata"]["ownerReferences"][0]["kind"] == "WarmModel"
    ]


def versions(api: Api, namespace: str) -> dict[tuple[str, str], str]:
    """What the operator wrote last: the time stamps of its entries in managedFields.

    A child's resourceVersion also changes when its own controller reports its status.
    """
    found = [
        (kind, child) for kind in CHILDREN for child in children(api, kind, namespace, "quiet")
    ]
    return {
        (kind, child["metadata"]["name"]): entry["time"]
        for kind, child in [*found, ("WarmModel", api.get("WarmModel", "quiet", namespace))]
        for entry in child["metadata"]["managedFields"]
        if entry["manager"] == "warmpod"
    }
