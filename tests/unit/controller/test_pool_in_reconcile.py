"""The pool in whole reconciles, against an API server in memory."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from unit.controller.builders import (
    NAME,
    NAMESPACE,
    NOW,
    PodWrapper,
    World,
    ago,
    engine,
    warm_model,
)
from unit.controller.test_reconcile import KEY, Cluster, bring_up
from warmpod.controller.apiserver.kinds import DEPLOYMENT, POD, WARM_MODEL
from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.clients.sidecars import Load
from warmpod.resources.names import ROLE_LABEL

REVISION = World().hash


@pytest.fixture
async def cluster() -> Cluster:
    """One pod serves, one is held back."""
    found = Cluster()
    found.kube.put(warm_model(standby={"replicas": 1}))
    await bring_up(found)
    put(found, engine("spare").warm().standby())
    await found.reconcile()
    found.kube.calls.clear()
    return found


def put(cluster: Cluster, pod: PodWrapper) -> None:
    cluster.kube.put(pod.of(REVISION).body())


def scale(cluster: Cluster, **spec: Any) -> None:
    stored = cluster.kube.find(WARM_MODEL, NAME)
    assert stored is not None
    cluster.update(WARM_MODEL, NAME, spec={**stored["spec"], **spec})


def roles(cluster: Cluster) -> dict[str, str]:
    return {
        name: obj["metadata"]["labels"][ROLE_LABEL]
        for (kind, _, name), obj in cluster.kube.objects.items()
        if kind is POD and ROLE_LABEL in obj["metadata"]["labels"]
    }


def replicas(cluster: Cluster) -> int:
    stored = cluster.kube.find(DEPLOYMENT, NAME)
    assert stored is not None
    return int(stored["spec"]["replicas"])


def status(cluster: Cluster) -> dict[str, Any]:
    stored = cluster.kube.find(WARM_MODEL, NAME)
    assert stored is not None
    found: dict[str, Any] = deepcopy(stored["status"])
    return found


async def test_the_pool_counts(cluster: Cluster) -> None:
    assert replicas(cluster) == 2
    found = status(cluster)
    assert (found["replicas"], found["standbyReplicas"], found["warmReplicas"]) == (1, 1, 2)
    assert cluster.condition("StandbyReady")["reason"] == "StandbyFilled"
    assert cluster.condition("Ready")["status"] == "True"


async def test_on_scale_out_the_role_is_the_first_thing_written(cluster: Cluster) -> None:
    scale(cluster, replicas=2)
    await cluster.observe()
    cluster.kube.calls.clear()
    await cluster.reconciler(KEY)
    assert cluster.kube.calls[0] == ("merge", "Pod", "spare"), "and nothing was asked before it"
    assert roles(cluster) == {"llama-0": "serving", "spare": "serving"}
    assert replicas(cluster) == 3, "it is refilled"
    assert "Promoted" in cluster.events()
    assert cluster.condition("StandbyReady")["reason"] == "StandbyRefilling"


async def test_refilling_does_not_make_the_model_unready(cluster: Cluster) -> None:
    del cluster.kube.objects[(POD, NAMESPACE, "spare")]
    await cluster.reconcile()
    assert cluster.condition("StandbyReady")["status"] == "False"
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("Reconciling")["status"] == "False"


async def test_a_standby_pod_takes_over_from_a_dead_one(cluster: Cluster) -> None:
    put(cluster, engine("llama-0").not_warm("EngineDied"))
    await cluster.reconcile()
    assert roles(cluster) == {"llama-0": "standby", "spare": "serving"}
    assert replicas(cluster) == 2
    assert "Promoted" in cluster.events()


async def test_scale_in_takes_out_first_and_deletes_when_idle(cluster: Cluster) -> None:
    scale(cluster, replicas=0, standby={"replicas": 0})
    assert await cluster.reconcile() == 1
    assert set(roles(cluster).values()) == {"standby"}
    assert replicas(cluster) == 2, "which one goes is not the operator's choice"
    put(cluster, engine("llama-0").warm().standby(demoted_at=ago(seconds=9)))
    await cluster.reconcile()
    assert replicas(cluster) == 2
    cluster.sidecars.loads["llama-0"] = Load(0, 0)
    cluster.idle.note(KEY, "uid-llama-0", Load(0, 0), NOW.replace(hour=11))
    await cluster.reconcile()
    assert replicas(cluster) == 0


async def test_to_zero_keeps_the_pool(cluster: Cluster) -> None:
    scale(cluster, replicas=0)
    await cluster.reconcile()
    assert roles(cluster) == {"llama-0": "standby", "spare": "standby"}
    assert replicas(cluster) == 2
    assert status(cluster)["standbyReplicas"] == 2


async def test_new_pods_are_held_back_before_they_are_warm(cluster: Cluster) -> None:
    del cluster.kube.objects[(POD, NAMESPACE, "spare")]
    put(cluster, engine("new"))
    await cluster.reconcile()
    assert roles(cluster)["new"] == "standby"
    assert "Demoted" not in cluster.events(), "it never served"


async def test_a_pool_that_stays_unfilled(cluster: Cluster) -> None:
    del cluster.kube.objects[(POD, NAMESPACE, "spare")]
    scale(cluster, standby={"replicas": 1, "maxUnfilledSeconds": 60})
    assert await cluster.reconcile() == 60
    found = status(cluster)
    for condition in found["conditions"]:
        if condition["type"] == "StandbyReady":
            condition["lastTransitionTime"] = ago(seconds=61)
    cluster.update(WARM_MODEL, NAME, status=found)
    await cluster.reconcile()
    assert cluster.condition("StandbyReady")["reason"] == "StandbyUnfilled"
    assert "StandbyUnfilled" in cluster.events()


async def test_a_sleeping_pod_is_called(cluster: Cluster) -> None:
    scale(cluster, replicas=2, standby={"replicas": 0, "state": "Sleeping"})
    put(cluster, engine("spare").asleep().standby())
    assert await cluster.reconcile() == 1, "until it is awake"
    await asyncio.sleep(0)
    assert ("wake", "spare") in cluster.sidecars.calls
    assert roles(cluster)["spare"] == "serving"


async def test_a_role_that_may_not_be_written_does_not_hold_up_the_rest(cluster: Cluster) -> None:
    refused = [ApiError(403, "Forbidden", "admission webhook says no")] * 9
    cluster.kube.fail("merge", "Pod", *refused)
    scale(cluster, replicas=2)
    assert await cluster.reconcile() == 15
    assert replicas(cluster) == 3
    assert cluster.condition("Ready")["reason"] == "ChildRejected"


@pytest.mark.parametrize("writes", range(8))
async def test_a_restart_between_any_two_writes(cluster: Cluster, writes: int) -> None:
    """The connection breaks at the write of that number, and another operator takes over."""
    scale(cluster, replicas=2)
    put(cluster, engine("llama-0").not_warm("EngineDied"))
    break_after(cluster, writes)
    try:
        await cluster.reconcile()
    except Unreachable:
        mend(cluster)
        cluster.restart()
        await cluster.reconcile()
    mend(cluster)
    assert roles(cluster)["spare"] == "serving"
    assert replicas(cluster) == 3
    assert not [call for call in await calls_of_another(cluster) if call[1] != "Event"]


def break_after(cluster: Cluster, writes: int) -> None:
    made = cluster.kube._called
    left = [writes]

    def called(verb: str, kind: Any, name: str) -> None:
        if verb not in ("get", "list"):
            if not left[0]:
                raise Unreachable("cut")
            left[0] -= 1
        made(verb, kind, name)

    cluster.kube._called = called  # type: ignore[method-assign]


def mend(cluster: Cluster) -> None:
    cluster.kube.__dict__.pop("_called", None)


async def calls_of_another(cluster: Cluster) -> list[tuple[str, str, str]]:
    """What one more reconcile of the same operator writes."""
    before = len(cluster.kube.writes())
    await cluster.reconcile()
    return cluster.kube.writes()[before:]
