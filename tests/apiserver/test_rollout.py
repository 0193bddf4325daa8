"""A change of weights on nodes and with pods that kwok plays: new ones first, old ones last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.api import Api, JsonObject
from support.models import WEIGHTS_BASE, ModelView, warm_model, with_engine
from support.nodes import ON_FAKE_NODES, fake_nodes, only_on, play, report
from support.waiting import wait_until

RESIDENT = "warmpod.io/Resident"
PREFETCH = "warmpod.io/prefetch"


@pytest.fixture(scope="module", autouse=True)
def nodes(api: Api) -> Iterator[list[str]]:
    with fake_nodes(api, 2, prefix="rollout") as names:
        yield names


class Rollout:
    """A WarmModel that serves, and what becomes of it."""

    def __init__(self, api: Api, model: JsonObject) -> None:
        self.api = api
        self.model = model
        metadata = model["metadata"]
        self.view = ModelView(api, metadata["name"], metadata["namespace"])
        api.apply(model)
        self.finish()
        (self.old,) = self.daemon_sets()

    def apply(self, **spec: object) -> None:
        self.api.apply({**self.model, "spec": {**self.model["spec"], **spec}})

    def finish(self) -> None:
        """Plays all pods until nothing is left to do."""

        def done() -> bool:
            play(self.api, (*self.view.prefetch_pods(), *self.view.engine_pods()))
            return self.view.condition("Reconciling").get("reason") == "UpToDate"

        wait_until("all is done", done, timeout_s=180, describe=self.view.conditions)

    def daemon_sets(self) -> list[str]:
        """Identities, by the label."""
        label = f"warmpod.io/model={self.view.name}"
        found = self.api.list("DaemonSet", self.view.namespace, label)
        return [one["metadata"]["labels"][PREFETCH] for one in found]

    def new_pods(self, count: int = 2) -> list[JsonObject]:
        """Of other weights than at first, once they are scheduled."""

        def scheduled() -> list[JsonObject] | None:
            found = [
                pod
                for pod in self.view.prefetch_pods()
                if pod["metadata"]["labels"][PREFETCH] != self.old and pod["spec"].get("nodeName")
            ]
            return found if len(found) == count else None

        found = wait_until(
            "the new weights' pods are on the nodes",
            scheduled,
            timeout_s=180,
            describe=self.view.conditions,
        )
        assert found is not None
        return found

    def live(self) -> str:
        """The revision that the Deployment has."""
        found = self.api.get("Deployment", self.view.name, self.view.namespace)
        labels: dict[str, str] = found["spec"]["template"]["metadata"]["labels"]
        return labels["warmpod.io/revision"]

    def events(self) -> set[str]:
        found = self.api.list("Event", self.view.namespace)
        return {
            event["reason"]
            for event in found
            if event["involvedObject"].get("name") == self.view.name
        }

    def wait_only(self, identity: str) -> None:
        wait_until(
            f"the DaemonSet {identity} is alone",
            lambda: self.daemon_sets() == [identity],
            timeout_s=180,
            describe=self.daemon_sets,
        )


def rollout(api: Api, namespace: str, name: str) -> Rollout:
    return Rollout(api, warm_model(name, namespace, pod=ON_FAKE_NODES))


def test_new_weights_come_to_all_nodes_before_the_first_engine_changes(
    api: Api, namespace: str
) -> None:
    changing = rollout(api, namespace, "changing")
    before = changing.live()
    changing.apply(model={"image": WEIGHTS_BASE})
    one, other = changing.new_pods()
    assert len(changing.daemon_sets()) == 2

    report(api, one, RESIDENT, "Resident")
    found = changing.view.wait_condition("WeightsResident", "False")
    wait_until(
        "one node is counted",
        lambda: changing.view.get()["status"]["nodes"].get("progress", "").startswith("1/2"),
        timeout_s=180,
        describe=lambda: changing.view.get()["status"]["nodes"],
    )
    assert found["reason"] in {"Prefetching", "Verifying"}
    changing.view.wait_condition("Ready", "True", {"PreviousRevisionServes"})
    changing.view.wait_condition("Reconciling", "True")
    assert changing.live() == before

    report(api, other, RESIDENT, "Resident")
    wait_until("the engines change", lambda: changing.live() != before, timeout_s=180)
    changing.finish()
    changing.wait_only(one["metadata"]["labels"][PREFETCH])
    wait_until("it is told", lambda: "WeightsReleased" in changing.events(), timeout_s=180)


def test_other_arguments_leave_the_agents_alone(api: Api, namespace: str) -> None:
    changing = rollout(api, namespace, "arguments")
    before = changing.live()
    agents = {pod["metadata"]["uid"] for pod in changing.view.prefetch_pods()}
    api.apply(with_engine(changing.model, args=["--max-model-len=128"]))
    wait_until("the engines change", lambda: changing.live() != before, timeout_s=180)
    changing.finish()
    assert changing.daemon_sets() == [changing.old]
    assert {pod["metadata"]["uid"] for pod in changing.view.prefetch_pods()} == agents


def test_a_node_that_cannot_have_them_does_not_hold_up_the_others(api: Api, namespace: str) -> None:
    changing = rollout(api, namespace, "broken-node")
    before = changing.live()
    changing.apply(model={"image": WEIGHTS_BASE})
    one, other = changing.new_pods()
    report(api, one, RESIDENT, "Resident")
    report(api, other, RESIDENT, "DigestMismatch", "False")
    wait_until("the engines change", lambda: changing.live() != before, timeout_s=180)


def test_reverting_unblocks(api: Api, namespace: str) -> None:
    changing = rollout(api, namespace, "reverted")
    before = changing.live()
    engines = {pod["metadata"]["uid"] for pod in changing.view.engine_pods()}
    changing.apply(model={"image": WEIGHTS_BASE})
    for pod in changing.new_pods():
        report(api, pod, RESIDENT, "DigestMismatch", "False")
    changing.view.wait_condition("Stalled", "True", {"DigestMismatch"})
    changing.view.wait_condition("Ready", "True", {"PreviousRevisionServes"})
    assert changing.live() == before

    api.apply(changing.model)
    changing.view.wait_condition("Reconciling", "False", {"UpToDate"})
    changing.wait_only(changing.old)
    assert {pod["metadata"]["uid"] for pod in changing.view.engine_pods()} == engines


def test_a_node_that_loses_them_is_an_event(api: Api, namespace: str) -> None:
    changing = rollout(api, namespace, "losing")
    pod = changing.view.prefetch_pods()[0]
    report(api, pod, RESIDENT, "NotResident", "False")
    wait_until("the loss is told", lambda: "ResidencyLost" in changing.events(), timeout_s=180)
    report(api, pod, RESIDENT, "Resident")
    wait_until(
        "that they are back is told",
        lambda: "ResidencyRestored" in changing.events(),
        timeout_s=180,
    )


def test_where_both_do_not_fit_the_old_weights_go_first(api: Api, namespace: str) -> None:
    with fake_nodes(api, 1, prefix="small", resources={"memory": "2Gi"}):
        model = warm_model("tight", namespace, pod=only_on("small"), weights={"size": "1Gi"})
        changing = Rollout(api, model)
        engines = {pod["metadata"]["uid"] for pod in changing.view.engine_pods()}
        changing.apply(model={"image": WEIGHTS_BASE})
        (new,) = changing.new_pods(1)
        assert changing.daemon_sets() == [new["metadata"]["labels"][PREFETCH]]
        assert {pod["metadata"]["uid"] for pod in changing.view.engine_pods()} == engines
        wait_until("it is told", lambda: "WeightsSwapped" in changing.events(), timeout_s=180)
        changing.finish()
