"""The pool on the API server and its controllers, with nodes and pods that kwok plays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.api import Api, JsonObject
from support.models import ModelView, warm_model, with_engine
from support.nodes import ON_FAKE_NODES, fake_nodes, play_until, report
from support.promotion import role_of, scale, staying
from support.waiting import wait_until

WARM = "warmpod.io/Warm"
COST = "controller.kubernetes.io/pod-deletion-cost"
# Nothing runs on a fake node, so nobody can say that a pod is idle: the shortest grace period.
POD: JsonObject = {**ON_FAKE_NODES, "terminationGracePeriodSeconds": 30}


@pytest.fixture(scope="module", autouse=True)
def nodes(api: Api) -> Iterator[list[str]]:
    with fake_nodes(api, 3, prefix="pool") as names:
        yield names


@pytest.fixture
def pooled(api: Api, namespace: str) -> ModelView:
    """One pod serves, one waits."""
    api.apply(warm_model("pooled", namespace, pod=POD, standby={"replicas": 1}))
    view = ModelView(api, "pooled", namespace)
    play_until(api, view, lambda: counts(view) == (1, 1) and is_filled(view))
    return view


def counts(view: ModelView) -> tuple[int, int]:
    return len(staying(view, "serving")), len(staying(view, "standby"))


def is_filled(view: ModelView) -> bool:
    return view.condition("StandbyReady").get("status") == "True"


def name_of(pod: JsonObject) -> str:
    return str(pod["metadata"]["name"])


def test_the_status_counts_what_serves(pooled: ModelView) -> None:
    status = pooled.get()["status"]
    assert (status["replicas"], status["standbyReplicas"], status["warmReplicas"]) == (1, 1, 2)
    assert status["selector"].endswith("warmpod.io/role=serving")
    assert pooled.api.get("Deployment", "pooled", pooled.namespace)["spec"]["replicas"] == 2
    assert len(pooled.ready_addresses()) <= 1


def test_scale_out_promotes_and_refills(api: Api, pooled: ModelView) -> None:
    (spare,) = staying(pooled, "standby")
    scale(api, pooled, 2)
    wait_until(
        "the spare one serves",
        lambda: name_of(spare) in map(name_of, staying(pooled, "serving")),
        timeout_s=180,
    )
    annotations = api.get("Pod", name_of(spare), pooled.namespace)["metadata"]["annotations"]
    assert annotations["warmpod.io/promoted-from"] == "Awake"
    assert annotations[COST] == "1"
    play_until(api, pooled, lambda: counts(pooled) == (2, 1) and is_filled(pooled))
    # Not at once: every node has to know of the new endpoint first.
    pooled.wait_ready(timeout_s=180)


def test_scale_in_takes_out_first_and_deletes_later(api: Api, pooled: ModelView) -> None:
    scale(api, pooled, 2)
    play_until(api, pooled, lambda: counts(pooled) == (2, 1) and is_filled(pooled))
    scale(api, pooled, 1)
    wait_until("one serves", lambda: counts(pooled) == (1, 2), timeout_s=180)
    (demoted,) = [
        pod
        for pod in staying(pooled, "standby")
        if "warmpod.io/demoted-at" in pod["metadata"].get("annotations", {})
    ]
    assert demoted["metadata"]["annotations"][COST] == "-1"
    play_until(api, pooled, lambda: counts(pooled) == (1, 1))
    assert api.get("Deployment", "pooled", pooled.namespace)["spec"]["replicas"] == 2


def test_zero_replicas_keep_the_pool(api: Api, pooled: ModelView) -> None:
    scale(api, pooled, 0)
    play_until(api, pooled, lambda: counts(pooled) == (0, 1) and len(pooled.engine_pods()) == 1)
    status = pooled.get()["status"]
    assert (status["replicas"], status["standbyReplicas"]) == (0, 1)


def test_a_pod_that_stops_being_warm_is_replaced_at_once(api: Api, pooled: ModelView) -> None:
    (serving,), (spare,) = staying(pooled, "serving"), staying(pooled, "standby")
    report(api, serving, WARM, "CanaryFailed", "False")

    def swapped() -> bool:
        roles = {name_of(pod): role_of(pod) for pod in pooled.engine_pods()}
        return (roles[name_of(spare)], roles[name_of(serving)]) == ("serving", "standby")

    wait_until("the two have changed roles", swapped, timeout_s=180)
    assert pooled.condition("StandbyReady")["reason"] == "StandbyRefilling"


def test_the_standby_pod_serves_during_a_rollout(api: Api, pooled: ModelView) -> None:
    before = pooled.get()["status"]["revision"]
    model = warm_model("pooled", pooled.namespace, pod=POD, standby={"replicas": 1})
    api.apply(with_engine(model, args=["--max-model-len=128"]))

    def done() -> bool:
        revisions = {p["metadata"]["labels"]["warmpod.io/revision"] for p in pooled.engine_pods()}
        assert len(staying(pooled, "serving")) >= 1
        return before not in revisions and counts(pooled) == (1, 1) and is_filled(pooled)

    play_until(api, pooled, done)


def test_a_serving_pod_may_be_evicted_and_so_may_a_standby_pod(api: Api, pooled: ModelView) -> None:
    for role in ("serving", "standby"):
        (pod,) = staying(pooled, role)
        evict(api, pod)
        play_until(
            api,
            pooled,
            lambda pod=pod: (
                counts(pooled) == (1, 1)
                and name_of(pod) not in map(name_of, pooled.engine_pods())
                and is_filled(pooled)
            ),
        )


def test_the_budget_counts_serving_pods_only(api: Api, pooled: ModelView) -> None:
    """With `maxUnavailable` it would allow nothing: two are healthy, and three are expected."""
    scale(api, pooled, 2)
    play_until(api, pooled, lambda: counts(pooled) == (2, 1) and is_filled(pooled))

    def status() -> JsonObject:
        found: JsonObject = api.get("PodDisruptionBudget", "pooled", pooled.namespace)["status"]
        return found

    wait_until("one may go", lambda: status().get("disruptionsAllowed") == 1, timeout_s=180)
    assert (status()["currentHealthy"], status()["desiredHealthy"]) == (2, 1)


def evict(api: Api, pod: JsonObject) -> None:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    api.request("POST", f"api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
