"""Objects of a WarmModel that somebody edits; the API server knows who set what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import operator
from support.api import STRATEGIC_PATCH, Api, JsonObject
from support.events import events_of, wait_event
from support.models import ModelView, gate_is_open, warm_model, with_engine
from support.nodes import ON_FAKE_NODES, fake_nodes, play_until
from support.waiting import wait_until

POD: JsonObject = {**ON_FAKE_NODES, "terminationGracePeriodSeconds": 30}
SHELL: JsonObject = {
    "name": "shell",
    "image": "example.com/shell:1",
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
}
WITH_VARIABLE: JsonObject = {"name": "engine", "env": [{"name": "ADDED", "value": "1"}]}
SCRATCH: JsonObject = {"name": "scratch", "emptyDir": {}}
NOWHERE: JsonObject = {"nodeSelector": {"tests.warmpod.io/none": "true"}}
PORT: JsonObject = {"name": "more", "port": 9000, "protocol": "TCP"}


@pytest.fixture(scope="module", autouse=True)
def nodes(api: Api) -> Iterator[list[str]]:
    with fake_nodes(api, 2, prefix="edits") as names:
        yield names


@pytest.fixture
def view(api: Api, namespace: str) -> ModelView:
    """Its pods are played until it is Ready."""
    api.apply(warm_model("edited", namespace, pod=POD))
    view = ModelView(api, "edited", namespace)
    play_until(api, view, lambda: view.condition("Ready").get("status") == "True")
    return view


def in_pods(**spec: object) -> JsonObject:
    return {"spec": {"template": {"spec": spec}}}


def edit(view: ModelView, kind: str, name: str, body: JsonObject) -> None:
    view.api.patch(kind, name, view.namespace, body, content_type=STRATEGIC_PATCH)


def spec_of(view: ModelView, kind: str, name: str) -> JsonObject:
    spec: JsonObject = view.api.get(kind, name, view.namespace)["spec"]
    return spec


def uids(pods: list[JsonObject]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def told(view: ModelView, reason: str) -> str:
    return " ".join(e["message"] for e in events_of(view) if e["reason"] == reason)


def undo(view: ModelView, kind: str, name: str, body: JsonObject) -> None:
    """Edits, and waits until that is undone."""
    before = spec_of(view, kind, name)
    edit(view, kind, name, body)
    wait_until(
        f"{kind} {name} is as it was",
        lambda: spec_of(view, kind, name) == before,
        timeout_s=30,
        describe=lambda: spec_of(view, kind, name),
    )


def test_what_somebody_adds_is_taken_out_and_told(api: Api, view: ModelView) -> None:
    (agents,) = api.list("DaemonSet", view.namespace, "warmpod.io/model=edited")
    daemon_set, engines = agents["metadata"]["name"], uids(view.engine_pods())
    added = {"containers": [SHELL, {"name": "agent", "image": "example.com/agent:1"}]}
    undo(view, "DaemonSet", daemon_set, in_pods(**NOWHERE, **added, volumes=[SCRATCH]))
    shelled = in_pods(containers=[SHELL, WITH_VARIABLE], volumes=[SCRATCH])
    undo(view, "Deployment", "edited", shelled)
    undo(view, "Service", "edited", {"spec": {"ports": [PORT], "sessionAffinity": "ClientIP"}})
    labelled = {"metadata": {"labels": {"theirs": "yes"}}, "spec": {"minAvailable": 3}}
    undo(view, "PodDisruptionBudget", "edited", labelled)
    labels = api.get("PodDisruptionBudget", "edited", view.namespace)["metadata"]["labels"]
    assert labels["theirs"] == "yes", "labels are for everybody"
    for field in (
        "containers[shell]",
        "containers[agent].image",
        "nodeSelector",
        "volumes[scratch]",
        "containers[engine].env[ADDED]",
        "spec.sessionAffinity",
        "spec.ports[9000/TCP]",
        "spec.minAvailable",
        "set by tests",
    ):
        wait_until(
            f"an event tells of {field}",
            lambda field=field: field in told(view, "EditUndone"),
            timeout_s=10,
            describe=lambda: told(view, "EditUndone"),
        )
    play_until(api, view, lambda: view.condition("Ready").get("status") == "True")
    wait_until("no engine was replaced", lambda: uids(view.engine_pods()) == engines, timeout_s=60)


def test_a_restart_that_somebody_asked_for_goes_on(api: Api, view: ModelView) -> None:
    first = uids(view.engine_pods())
    mark = {"kubectl.kubernetes.io/restartedAt": "2030-01-01T12:00:00Z"}
    edit(view, "Deployment", "edited", {"spec": {"template": {"metadata": {"annotations": mark}}}})
    play_until(api, view, lambda: view.engine_pods() and not first & uids(view.engine_pods()))
    assert told(view, "EditUndone") == ""


def test_whoever_does_not_give_up_is_named(view: ModelView) -> None:
    def is_left() -> bool:
        return "undone 3 times" in view.condition("Ready").get("message", "")

    def is_undone() -> bool:
        return spec_of(view, "Service", "edited")["sessionAffinity"] == "None"

    for _ in range(4):
        edit(view, "Service", "edited", {"spec": {"sessionAffinity": "ClientIP"}})
        wait_until("it is undone, or left", lambda: is_undone() or is_left(), timeout_s=30)
    wait_event(view, "ChildEdited")
    assert not is_undone()
    message = view.condition("Ready")["message"]
    assert f"Service {view.namespace}/edited: spec.sessionAffinity" in message
    assert view.condition("Ready")["status"] == "True"


def test_warm_engines_with_it_are_not_replaced(api: Api, view: ModelView) -> None:
    """As after an upgrade from a version that let it be."""
    first = uids(view.engine_pods())
    operator.scale(api, 0)
    try:
        edit(view, "Deployment", "edited", in_pods(containers=[WITH_VARIABLE]))

        def replaced() -> bool:
            pods = view.engine_pods()
            return not first & uids(pods) and all(map(gate_is_open, pods))

        play_until(api, view, replaced)
    finally:
        operator.scale(api, 1)
    second = uids(view.engine_pods())
    wait_event(view, "ChildEdited")
    assert "containers[engine].env[ADDED] (set by tests)" in told(view, "ChildEdited")
    assert uids(view.engine_pods()) == second
    api.apply(with_engine(warm_model("edited", view.namespace, pod=POD), args=["--seed=1"]))
    play_until(api, view, lambda: "ADDED" not in str(spec_of(view, "Deployment", "edited")))
    wait_event(view, "EditUndone")
