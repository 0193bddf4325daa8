"""Rollouts with a GPU to spare and with none, of good, broken and slower engines: a client that
asks five times a second sees no error, but where the documentation says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.api import Api, JsonObject
from support.devices import GPU, fake_gpus
from support.history import of_model
from support.models import ModelView, warm_model, with_engine
from support.traffic import Traffic
from support.waiting import wait_until

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]

#: What a token takes (seconds): ten times as long, and more than anybody overlooks.
SLOWER = {"first_seconds": 0.05, "token_seconds": 0.1}
BROKEN = {
    "ends at its start": {"fault": "crash-at-start"},
    "answers with errors": {"fault": "error-500", "first_seconds": 0.05},
}
JUDGED_S = 240


class Rollout:
    """A WarmModel that serves, whose engines want a GPU each."""

    def __init__(self, create: Create, namespace: str, replicas: int) -> None:
        engine: dict[str, Any] = {
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {GPU: "1"}}
        }
        self._create = create
        self.model = with_engine(warm_model("rolling", namespace, replicas=replicas), **engine)
        self.view = create(self.model)
        self.view.wait_ready(timeout_s=240)
        self.replicas = replicas
        self.old = self.pods()

    def change(self, **engine: Any) -> None:
        self._create(with_engine(self.model, **engine))

    def revert(self) -> None:
        self._create(self.model)

    def pods(self) -> set[str]:
        """Those that are there to stay, by uid."""
        return {
            pod["metadata"]["uid"]
            for pod in self.view.engine_pods()
            if "deletionTimestamp" not in pod["metadata"]
        }

    def traffic(self) -> Traffic:
        return Traffic(self.view.service_url(), "rolling")

    def wait_replaced(self) -> None:
        self.view.wait_ready(timeout_s=JUDGED_S)
        self._wait(lambda: len(self.pods()) == self.replicas and not self.pods() & self.old)

    def wait_taken_back(self) -> str:
        found = self.view.wait_condition("Stalled", "True", {"RolloutRejected"}, timeout_s=JUDGED_S)
        self.view.wait_condition("Ready", "True", {"PreviousRevisionServes"}, timeout_s=JUDGED_S)
        message: str = found["message"]
        return message

    def wait_reverted(self) -> None:
        self.view.wait_ready(timeout_s=JUDGED_S)
        self._wait(lambda: len(self.pods()) == self.replicas)
        assert self.view.condition("Stalled")["status"] == "False"

    def _wait(self, probe: Callable[[], bool]) -> None:
        wait_until("the pods are as asked for", probe, timeout_s=120, describe=self.view.conditions)


def good() -> JsonObject:
    """Another revision that is as fast."""
    return {"args": ["--max-model-len=2048"]}


def test_with_one_gpu_to_spare(api: Api, create: Create, namespace: str) -> None:
    with fake_gpus(api, 2):
        rollout = Rollout(create, namespace, replicas=1)
        said = of_model(rollout.view, "Reconciling")
        with rollout.traffic() as traffic:
            rollout.change(**good())
            rollout.wait_replaced()
        assert traffic.failures == []
        assert "RolloutOneByOne" not in {each.reason for each in said.since(0)}


def test_with_none_to_spare_and_two_pods(api: Api, create: Create, namespace: str) -> None:
    with fake_gpus(api, 2):
        rollout = Rollout(create, namespace, replicas=2)
        said = of_model(rollout.view, "Reconciling")
        with rollout.traffic() as traffic:
            rollout.change(**good())
            rollout.wait_replaced()
        assert traffic.failures == []
        said.wait_for("True", after=0, timeout_s=5, reasons={"RolloutOneByOne"})


def test_with_none_to_spare_and_one_pod_there_is_a_gap_and_an_end(
    api: Api, create: Create, namespace: str
) -> None:
    """The documentation says so: nobody serves while the only GPU changes hands."""
    with fake_gpus(api, 1):
        rollout = Rollout(create, namespace, replicas=1)
        rollout.change(**good())
        rollout.wait_replaced()


# Each with room for one pod more, or with none.
@pytest.mark.parametrize(
    ("gpus", "replicas", "fault"),
    [
        pytest.param(2, 1 + number % 2, fault, id=f"{fault}, {'full' if number % 2 else 'spare'}")
        for number, fault in enumerate(BROKEN)
    ],
)
def test_a_broken_version_is_taken_back(
    api: Api, create: Create, namespace: str, gpus: int, replicas: int, fault: str
) -> None:
    with fake_gpus(api, gpus):
        rollout = Rollout(create, namespace, replicas)
        with rollout.traffic() as traffic:
            rollout.change(sim=BROKEN[fault])
            rollout.wait_taken_back()
            rollout.revert()
            rollout.wait_reverted()
        assert traffic.failures == []
        assert len(rollout.pods() & rollout.old) >= (1 if gpus == replicas else replicas)


def test_a_slower_version_is_taken_back(api: Api, create: Create, namespace: str) -> None:
    gpus, replicas = 2, 2
    with fake_gpus(api, gpus):
        rollout = Rollout(create, namespace, replicas)
        with rollout.traffic() as traffic:
            rollout.change(sim=SLOWER)
            message = rollout.wait_taken_back()
            assert "% longer" in message
            rollout.revert()
            rollout.wait_reverted()
            rollout.change(sim=SLOWER)
            rollout.wait_taken_back()
        assert traffic.failures == []


def test_a_slower_version_that_is_wanted(api: Api, create: Create, namespace: str) -> None:
    with fake_gpus(api, 2):
        rollout = Rollout(create, namespace, replicas=1)
        rollout.model["spec"]["rollout"] = {"onRegression": "Proceed"}
        with rollout.traffic() as traffic:
            rollout.change(sim=SLOWER)
            rollout.wait_replaced()
        assert traffic.failures == []


def test_a_version_that_fits_nowhere_is_reverted(api: Api, create: Create, namespace: str) -> None:
    """It wants more than there is, which is no fault of its own: it waits, and says so."""
    with fake_gpus(api, 2):
        rollout = Rollout(create, namespace, replicas=2)
        said = of_model(rollout.view, "Reconciling")
        with rollout.traffic() as traffic:
            rollout.change(resources={"limits": {GPU: "3"}})
            said.wait_for("True", after=0, timeout_s=60, reasons={"RolloutWaitsForRoom"})
            rollout.revert()
            rollout.wait_reverted()
        assert traffic.failures == []
        assert rollout.pods() == rollout.old
