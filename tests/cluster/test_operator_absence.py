"""The operator is not in the serving path, and its upgrade restarts no engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from support import operator
from support.api import Api, JsonObject
from support.images import crane
from support.models import ModelView, warm_model, with_engine
from support.traffic import Traffic
from support.waiting import wait_until

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]
Away = Callable[[], AbstractContextManager[None]]


def test_pods_become_ready_with_the_operator_away(
    api: Api, create: Create, namespace: str, operator_away: Away
) -> None:
    view = create(warm_model("alone", namespace))
    view.wait_ready()
    with operator_away():
        old = view.engine_pod()["metadata"]
        api.delete("Pod", old["name"], namespace)
        wait_until(
            "another pod serves",
            lambda: (
                view.ready_addresses() and view.engine_pods()[0]["metadata"]["uid"] != old["uid"]
            ),
            timeout_s=180,
        )


def test_upgrade_restarts_nothing(api: Api, create: Create, namespace: str) -> None:
    """A new operator image means a new sidecar image too; running pods keep theirs."""
    view = create(warm_model("upgraded", namespace))
    view.wait_ready()
    before = uids(view)
    deployment = api.get("Deployment", operator.NAME, operator.NAMESPACE)
    old_image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    new_image = old_image.rpartition(":")[0].partition("@")[0] + ":upgraded"
    crane("copy", old_image, new_image)
    try:
        set_operator_image(api, new_image)
        api.patch("WarmModel", "upgraded", namespace, {"metadata": {"labels": {"touched": "yes"}}})
        fresh = create(warm_model("fresh", namespace))
        fresh.wait_ready()
        images = {c["image"] for c in fresh.engine_pod()["spec"]["initContainers"]}
        assert images == {new_image}, "a new WarmModel does not get the new sidecar"
        assert uids(view) == before
    finally:
        set_operator_image(api, old_image)
    assert uids(view) == before


def test_restart_during_a_rollout(
    api: Api, create: Create, namespace: str, operator_away: Away
) -> None:
    view = create(warm_model("rollout", namespace, replicas=2))
    view.wait_ready()
    old = {pod["metadata"]["uid"] for pod in view.engine_pods()}
    with Traffic(view.service_url(), "rollout") as traffic:
        changed = with_engine(
            warm_model("rollout", namespace, replicas=2), args=["--max-model-len=128"]
        )
        create(changed)
        wait_until(
            "a pod of the new revision exists",
            lambda: {pod["metadata"]["uid"] for pod in view.engine_pods()} - old,
            timeout_s=60,
        )
        with operator_away():
            pass
        view.wait_ready(timeout_s=300)
        wait_until(
            "no old pod is left",
            lambda: not old & {pod["metadata"]["uid"] for pod in view.engine_pods()},
            timeout_s=180,
        )
    assert traffic.failures == []


def test_reverting_a_broken_rollout_unblocks_it(create: Create, namespace: str) -> None:
    model = warm_model("revert", namespace)
    view = create(model)
    view.wait_ready()
    pod = view.engine_pod()["metadata"]["uid"]
    with Traffic(view.service_url(), "revert") as traffic:
        create(with_engine(model, image="127.0.0.1:5000/warmpod/no-such-engine:1"))
        view.wait_condition("Reconciling", "False", {"ImageNotFound"})
        create(model)
        view.wait_ready(timeout_s=180)
    assert traffic.failures == []
    wait_until("the first pod is the only one", lambda: len(view.engine_pods()) == 1, timeout_s=120)
    assert view.engine_pod()["metadata"]["uid"] == pod


def uids(view: ModelView) -> set[str]:
    return {pod["metadata"]["uid"] for pod in (*view.engine_pods(), *view.prefetch_pods())}


def set_operator_image(api: Api, image: str) -> None:
    container = {
        "name": "operator",
        "image": image,
        "env": [{"name": "WARMPOD_OPERATOR_IMAGE", "value": image}],
    }
    api.patch(
        "Deployment",
        operator.NAME,
        operator.NAMESPACE,
        {"spec": {"template": {"spec": {"containers": [container]}}}},
        content_type="application/strategic-merge-patch+json",
    )
    operator.wait_for(api, 1)
