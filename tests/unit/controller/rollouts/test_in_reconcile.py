"""Rollouts in whole reconciles: what is asked, written, and found again after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from unit.controller.builders import NAME, World, engine, node, warm_model
from unit.controller.test_reconcile import Cluster, bring_up
from warmpod.controller.apiserver.kinds import CONTROLLER_REVISION, DEPLOYMENT
from warmpod.controller.apiserver.kube import ApiError
from warmpod.controller.rollouts.marking import BASELINE_ANNOTATION, PREVIOUS_ANNOTATION
from warmpod.resources.deployment import HELD_SECONDS

OLD = World().hash
CHANGED = {"args": ["--new"]}
NEW = World().change(engine=CHANGED).hash


@pytest.fixture
async def cluster() -> Cluster:
    """One node, one pod that serves, and a changed spec."""
    found = Cluster()
    found.fleet.watched = True
    found.kube.put(warm_model())
    found.kube.put(node("node-1", pods="110"))
    await bring_up(found)
    found.kube.put(warm_model(generation=2, engine=CHANGED))
    return found


def other_pod() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "namespace": "elsewhere", "uid": "other"},
        "spec": {"containers": [{}]},
    }


def spec(cluster: Cluster) -> dict[str, Any]:
    found = cluster.kube.find(DEPLOYMENT, NAME)
    assert found is not None
    return dict(found["spec"])


def marks(cluster: Cluster, revision: str) -> dict[str, str]:
    found = cluster.kube.find(CONTROLLER_REVISION, f"{NAME}-{revision}")
    assert found is not None
    return dict(found["metadata"].get("annotations") or {})


async def test_a_revision_begins_with_what_it_is_compared_with(cluster: Cluster) -> None:
    await cluster.reconcile()
    assert BASELINE_ANNOTATION in marks(cluster, OLD)
    assert marks(cluster, NEW) == {PREVIOUS_ANNOTATION: OLD}
    assert spec(cluster)["template"]["metadata"]["labels"]["warmpod.io/revision"] == NEW
    assert spec(cluster)["minReadySeconds"] == HELD_SECONDS


async def test_a_restart_in_the_middle_changes_nothing(cluster: Cluster) -> None:
    await cluster.reconcile()
    before = spec(cluster), marks(cluster, OLD), marks(cluster, NEW)
    cluster.restart()
    cluster.fleet.watched = True
    await cluster.reconcile()
    assert (spec(cluster), marks(cluster, OLD), marks(cluster, NEW)) == before


@pytest.mark.parametrize(("others", "surge"), [(0, 1), (1, 0)])
async def test_room_is_read_from_the_pods_of_all_namespaces(
    cluster: Cluster, others: int, surge: int
) -> None:
    """Three pods may be on the node, and one of them is the prefetch pod."""
    cluster.kube.put(node("node-1", pods="3"))
    for _ in range(others):
        cluster.kube.put(other_pod())
    await cluster.reconcile()
    rolling = spec(cluster)["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": surge, "maxUnavailable": 1 - surge}
    assert (cluster.condition("Reconciling")["reason"] == "RolloutOneByOne") == (surge == 0)


async def test_without_the_right_it_is_as_ever(cluster: Cluster) -> None:
    await cluster.observe()
    cluster.kube.fail("list", "Pod", ApiError(403, "Forbidden", "no"))
    await cluster.reconciler(("models", NAME))
    assert spec(cluster)["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


async def test_nothing_is_asked_while_no_pods_are_replaced(cluster: Cluster) -> None:
    cluster.kube.put(warm_model(generation=3))
    await cluster.observe()
    cluster.kube.calls.clear()
    await cluster.reconciler(("models", NAME))
    assert [call for call in cluster.kube.calls if call[:2] == ("list", "Pod")] == []


async def test_the_verdict_is_written_and_carried_out_at_once(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.kube.put(engine("new").of(NEW).warm().body())
    await cluster.reconcile()
    assert BASELINE_ANNOTATION in marks(cluster, NEW)
    assert spec(cluster)["minReadySeconds"] < HELD_SECONDS
    assert "RolloutAccepted" in cluster.events()
