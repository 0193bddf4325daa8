"""A new revision on nodes that kwok plays: it is judged by its first pod, kept or taken back; and
pods are replaced with one more where a node has room, else one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support import operator
from support.api import Api, JsonObject
from support.history import of_model
from support.models import ModelView, condition_of, warm_model, with_engine
from support.nodes import fake_nodes, only_on, play, report
from support.waiting import wait_until

GPU = "nvidia.com/gpu"
WARM, TIMELINE = "warmpod.io/Warm", "warmpod.io/StartupTimeline"
FAST = {"chat/16x1": 20.0, "chat/16x4": 30.0}
SLOW = {"chat/16x1": 200.0, "chat/16x4": 300.0}
RESOURCES = {"cpu": "8", "memory": "16Gi", "pods": "50"}


@pytest.fixture(scope="module", autouse=True)
def nodes(api: Api) -> Iterator[None]:
    with (
        fake_nodes(api, 1, prefix="one-gpu", resources=RESOURCES | {GPU: "1"}),
        fake_nodes(api, 1, prefix="two-gpus", resources=RESOURCES | {GPU: "2"}),
    ):
        yield


@pytest.fixture(autouse=True)
def free_devices(api: Api, nodes: None) -> None:
    """The namespace of the test before is deleted, and its pods may still have the devices."""

    def free() -> bool:
        pods = api.list("Pod", selector="warmpod.io/component=engine")
        return not any("-gpu" in pod["spec"].get("nodeName", "") for pod in pods)

    wait_until("all devices are free", free, timeout_s=180)


class Changing:
    """A WarmModel with pods of one device each, which serve."""

    def __init__(self, api: Api, namespace: str, nodes: str, replicas: int = 1) -> None:
        self.api = api
        engine = {"resources": {"requests": {"cpu": "20m"}, "limits": {GPU: "1"}}}
        model = warm_model("changing", namespace, pod=only_on(nodes), replicas=replicas)
        self.model = with_engine(model, **engine)
        self.view = ModelView(api, "changing", namespace)
        api.apply(self.model)
        self.play_prefetch()
        for pod in self.placed(replicas):
            self.warm(pod, FAST)
        self.view.wait_ready()
        self.first = self.live()
        wait_until("the first revision is accepted", lambda: "baseline" in self.marks(self.first),
                   timeout_s=180, describe=lambda: self.marks(self.first))  # fmt: skip

    def change(self, *args: str, **rollout: object) -> None:
        changed = with_engine(self.model, args=list(args or ("--max-model-len=128",)))
        changed["spec"]["rollout"] = rollout
        self.api.apply(changed)

    def play_prefetch(self) -> None:
        def resident() -> bool:
            play(self.api, self.view.prefetch_pods())
            return self.view.condition("WeightsResident").get("status") == "True"

        wait_until("the weights are there", resident, timeout_s=180, describe=self.view.conditions)

    def pods(self, revision: str = "") -> list[JsonObject]:
        """Those that are there to stay, of one revision or all."""
        return [
            pod
            for pod in self.view.engine_pods()
            if "deletionTimestamp" not in pod["metadata"]
            and revision in ("", pod["metadata"]["labels"]["warmpod.io/revision"])
        ]

    def placed(self, count: int, *, of: str = "", without: str = "") -> list[JsonObject]:
        """Pods on a node: of that revision, or of another than `without`, or all."""

        def found() -> list[JsonObject]:
            pods = [
                pod
                for pod in self.pods(of)
                if pod["spec"].get("nodeName")
                and pod["metadata"]["labels"]["warmpod.io/revision"] != without
            ]
            return pods if len(pods) == count else []

        return wait_until(
            f"{count} pods have a node", found, timeout_s=180, describe=self.view.conditions
        )

    def warm(self, pod: JsonObject, fastest: dict[str, float]) -> None:
        record = json.dumps({"boot": "b", "gate": 1.9e9, "fastest": fastest})
        report(self.api, pod, TIMELINE, "Recorded", message=record)
        report(self.api, pod, WARM, "Warm")

    def live(self) -> str:
        found = self.api.get("Deployment", "changing", self.view.namespace)
        labels: dict[str, str] = found["spec"]["template"]["metadata"]["labels"]
        return labels["warmpod.io/revision"]

    def rolling(self) -> tuple[int, int]:
        found = self.api.get("Deployment", "changing", self.view.namespace)["spec"]["strategy"]
        return found["rollingUpdate"]["maxSurge"], found["rollingUpdate"]["maxUnavailable"]

    def marks(self, revision: str) -> dict[str, str]:
        name = f"changing-{revision}"
        found = self.api.get("ControllerRevision", name, self.view.namespace)["metadata"]
        return {
            key.removeprefix("warmpod.io/"): value
            for key, value in (found.get("annotations") or {}).items()
        }

    def target(self) -> str:
        found: str = self.view.get()["status"]["revision"]
        return found

    def wait_alone(self, revision: str, count: int = 1) -> None:
        wait_until(
            f"only pods of {revision} are there",
            lambda: len(self.pods()) == len(self.pods(revision)) == count,
            timeout_s=180,
            describe=self.view.conditions,
        )


def uids(pods: list[JsonObject]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def test_with_room_a_new_pod_comes_first_and_as_fast_a_one_stays(api: Api, namespace: str) -> None:
    changing = Changing(api, namespace, "two-gpus")
    changing.change()
    (new,) = changing.placed(1, without=changing.first)
    assert changing.rolling() == (1, 0)
    assert len(changing.pods(changing.first)) == 1
    changing.warm(new, FAST)
    changing.wait_alone(changing.target())
    marks = changing.marks(changing.target())
    assert marks["previous"] == changing.first
    assert json.loads(marks["baseline"])["fastest"] == FAST


def test_a_slower_one_is_taken_back_and_stays_away(api: Api, namespace: str) -> None:
    changing = Changing(api, namespace, "two-gpus")
    old = uids(changing.pods())
    changing.change()
    (new,) = changing.placed(1, without=changing.first)
    changing.warm(new, SLOW)
    stalled = changing.view.wait_condition("Stalled", "True", {"RolloutRejected"})
    assert "900 % longer" in stalled["message"]
    changing.wait_alone(changing.first)
    assert uids(changing.pods()) == old
    changing.view.wait_condition("Ready", "True", {"PreviousRevisionServes"})

    api.apply(changing.model)
    changing.view.wait_condition("Stalled", "False")
    changing.change()
    changing.view.wait_condition("Stalled", "True", {"RolloutRejected"})
    assert uids(changing.pods()) == old

    changing.change(onRegression="Proceed")
    (new,) = changing.placed(1, without=changing.first)
    changing.warm(new, SLOW)
    changing.wait_alone(changing.target())
    assert "rejected" not in changing.marks(changing.target())


def test_wrong_answers_are_taken_back(api: Api, namespace: str) -> None:
    changing = Changing(api, namespace, "two-gpus")
    changing.change()
    (new,) = changing.placed(1, without=changing.first)
    report(api, new, WARM, "GoldenMismatch", "False", message="said B for A")
    stalled = changing.view.wait_condition("Stalled", "True", {"RolloutRejected"}, timeout_s=180)
    assert "said B for A" in stalled["message"]
    changing.wait_alone(changing.first)


def test_without_room_pods_go_one_by_one(api: Api, namespace: str) -> None:
    changing = Changing(api, namespace, "two-gpus", replicas=2)
    said = of_model(changing.view, "Reconciling")
    changing.change()
    (new,) = changing.placed(1, without=changing.first)
    assert changing.rolling() == (0, 1)
    said.wait_for("True", after=0, timeout_s=180, reasons={"RolloutOneByOne"})
    message = changing.view.condition("Reconciling")["message"]
    assert f"1 {GPU}" in message
    assert len(changing.pods(changing.first)) == 1, "it is judged before a second one goes"
    changing.warm(new, FAST)
    for pod in changing.placed(2, without=changing.first):
        if condition_of(pod, WARM).get("status") != "True":
            changing.warm(pod, FAST)
    changing.wait_alone(changing.target(), 2)


def test_the_only_place_is_given_up_and_given_back(api: Api, namespace: str) -> None:
    """A full cluster: the rollout goes on, and a revert in the middle goes back."""
    changing = Changing(api, namespace, "one-gpu")
    changing.change()
    changing.placed(1, without=changing.first)
    api.apply(changing.model)
    (old,) = changing.placed(1, of=changing.first)
    changing.warm(old, FAST)
    changing.view.wait_ready()


def test_nobody_judges_while_the_operator_is_away(api: Api, namespace: str) -> None:
    changing = Changing(api, namespace, "two-gpus")
    changing.change()
    (new,) = changing.placed(1, without=changing.first)
    operator.scale(api, 0)
    try:
        changing.warm(new, SLOW)
        wait_until(
            "the new pod is Ready",
            lambda: condition_of(changing.placed(2)[0], "Ready").get("status") == "True",
            timeout_s=180,
        )
        assert len(changing.pods(changing.first)) == 1
    finally:
        operator.scale(api, 1)
    changing.view.wait_condition("Stalled", "True", {"RolloutRejected"})
    changing.wait_alone(changing.first)
