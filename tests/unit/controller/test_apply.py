"""What is written, when, and what happens when the API server says no."""

from __future__ import annotations

from typing import Any

import pytest

from unit.controller.apply_bench import KEY, MODEL, SERVICE_BODY, Bench
from unit.controller.builders import NAME, NAMESPACE, Object, World, owned
from warmpod.controller.apiserver.kinds import DEPLOYMENT, SERVICE, kind_of
from warmpod.controller.apiserver.kube import ApiError
from warmpod.controller.apply import CONFLICT_SECONDS, REJECTED_SECONDS, NamespaceTerminating
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.resources import deployment


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_an_object_is_written_once(bench: Bench) -> None:
    assert (await bench.apply()).wrote
    assert not (await bench.apply()).wrote
    assert [call[0] for call in bench.kube.writes()] == ["apply"]


async def test_what_was_written_is_in_the_cache_at_once(bench: Bench) -> None:
    await bench.apply()
    assert bench.cache.get(SERVICE, KEY) is not None


async def test_a_changed_wish_is_written(bench: Bench) -> None:
    await bench.apply()
    changed = {**SERVICE_BODY, "spec": {**SERVICE_BODY["spec"], "type": "NodePort"}}
    assert (await bench.apply(changed)).wrote


async def test_drift_in_our_fields_is_repaired(bench: Bench) -> None:
    await bench.apply()
    stored = bench.kube.find(SERVICE, NAME)
    assert stored is not None
    await bench.told(spec={**stored["spec"], "selector": {"app": "stolen"}})
    assert (await bench.apply()).wrote
    repaired = bench.kube.find(SERVICE, NAME)
    assert repaired is not None
    assert repaired["spec"]["selector"]["warmpod.io/role"] == "serving"


async def test_fields_of_others_are_left_alone(bench: Bench) -> None:
    await bench.apply()
    stored = bench.kube.find(SERVICE, NAME)
    assert stored is not None
    await bench.told(spec={**stored["spec"], "clusterIP": "10.0.0.1"})
    assert not (await bench.apply()).wrote


async def test_a_label_that_was_taken_off_comes_back(bench: Bench) -> None:
    await bench.apply()
    stored = bench.kube.find(SERVICE, NAME)
    assert stored is not None
    labels = {**stored["metadata"]["labels"]}
    del labels["warmpod.io/component"]
    await bench.told(metadata={**stored["metadata"], "labels": labels})
    assert (await bench.apply()).wrote


async def test_an_annotation_of_ours_that_was_taken_off_comes_back(bench: Bench) -> None:
    mark = {"warmpod.io/rejected": "slower"}
    body = {**SERVICE_BODY, "metadata": {**SERVICE_BODY["metadata"], "annotations": mark}}
    await bench.apply(body)
    assert not (await bench.apply(body)).wrote
    stored = bench.kube.find(SERVICE, NAME)
    assert stored is not None
    await bench.told(metadata={**stored["metadata"], "annotations": {}})
    assert (await bench.apply(body)).wrote


async def test_a_workload_is_compared_by_generation(bench: Bench) -> None:
    world = World().store()
    wanted = deployment.build(MODEL, world.stored[0], 1)
    await bench.apply(wanted)
    stored = bench.kube.find(DEPLOYMENT, NAME)
    assert stored is not None
    bench.cache.upsert(DEPLOYMENT, bench.kube.put({**stored, "status": {"replicas": 1}}))
    assert not (await bench.apply(wanted)).wrote, "its status moved, not its spec"
    scaled = {**stored, "spec": {**stored["spec"], "replicas": 9}}
    bench.cache.upsert(DEPLOYMENT, bench.kube.put(scaled))
    assert (await bench.apply(wanted)).wrote
    repaired = bench.kube.find(DEPLOYMENT, NAME)
    assert repaired is not None
    assert repaired["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    "wanted", [SERVICE_BODY, deployment.build(MODEL, World().store().stored[0], 1)]
)
async def test_an_object_that_lost_its_owner_gets_it_back(bench: Bench, wanted: Object) -> None:
    """It would outlive the WarmModel, and its pods with it."""
    kind, name = kind_of(wanted), wanted["metadata"]["name"]
    await bench.apply(wanted)
    stored = bench.kube.find(kind, name)
    assert stored is not None
    meta = {k: v for k, v in stored["metadata"].items() if k != "ownerReferences"}
    bench.cache.upsert(kind, bench.kube.put({**stored, "metadata": meta}))
    assert (await bench.apply(wanted)).wrote
    owned_again = bench.kube.find(kind, name)
    assert owned_again is not None
    assert owned_again["metadata"]["ownerReferences"]


async def test_an_object_that_a_webhook_changes_is_not_written_in_a_loop(bench: Bench) -> None:
    def with_owner(obj: Object) -> Object:
        owners = [*obj["metadata"]["ownerReferences"], {"uid": "uid-of-another"}]
        return {**obj, "metadata": {**obj["metadata"], "ownerReferences": owners}}

    bench.kube.admit = with_owner
    assert (await bench.apply()).wrote
    assert not (await bench.apply()).wrote
    await bench.told(spec={"selector": {"app": "stolen"}})
    assert (await bench.apply()).wrote, "but drift is repaired"
    assert not (await bench.apply()).wrote


async def test_a_deleted_object_is_made_again(bench: Bench) -> None:
    await bench.apply()
    stored = bench.kube.objects.pop((SERVICE, *KEY))
    bench.cache.remove(SERVICE, stored)
    assert (await bench.apply()).wrote


async def test_after_a_restart_each_object_is_applied_once(bench: Bench) -> None:
    await bench.apply()
    version = (bench.kube.find(SERVICE, NAME) or {})["metadata"]["resourceVersion"]
    again = Bench(bench.kube, bench.cache)
    assert (await again.apply()).wrote
    assert (bench.kube.find(SERVICE, NAME) or {})["metadata"]["resourceVersion"] == version


# --- Objects in the way ---------------------------------------------------------------------------


def foreign(**metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": "uid-foreign", **metadata},
        "spec": {"selector": {"app": "foreign"}},
    }


async def test_an_object_of_somebody_else_is_never_overwritten(bench: Bench) -> None:
    bench.kube.put(foreign())
    outcome = await bench.apply()
    assert [f.reason for f in outcome.failures] == ["NameConflict"]
    assert outcome.failures[0].object == "Service models/llama"
    assert bench.kube.writes() == []

    del bench.kube.objects[(SERVICE, *KEY)]
    outcome = await bench.apply()
    assert (outcome.wrote, outcome.failures) == (True, ())


async def test_our_labels_alone_make_an_object_of_another_owner_no_child(bench: Bench) -> None:
    meta = owned(NAME)
    meta["labels"]["warmpod.io/model"] = "other"
    meta["ownerReferences"][0]["uid"] = "uid-other"
    bench.cache.upsert(SERVICE, bench.kube.put({**foreign(), "metadata": meta}))
    assert [f.reason for f in (await bench.apply()).failures] == ["NameConflict"]


async def test_a_child_of_an_earlier_model_of_that_name_is_waited_for(bench: Bench) -> None:
    meta = owned(NAME)
    meta["ownerReferences"][0]["uid"] = "uid-earlier"
    bench.cache.upsert(SERVICE, bench.kube.put({**foreign(), "metadata": meta}))
    assert [f.reason for f in (await bench.apply()).failures] == ["WaitingForDeletion"]
    assert bench.kube.writes() == []


async def test_a_child_that_is_being_deleted_is_waited_for(bench: Bench) -> None:
    meta = {**owned(NAME), "deletionTimestamp": "2030-01-01T12:00:00Z"}
    bench.cache.upsert(SERVICE, bench.kube.put({**foreign(), "metadata": meta}))
    assert [f.reason for f in (await bench.apply()).failures] == ["WaitingForDeletion"]


async def test_an_orphan_is_adopted(bench: Bench) -> None:
    """After `kubectl delete --cascade=orphan` and a new creation."""
    meta = owned(NAME)
    del meta["ownerReferences"]
    bench.cache.upsert(SERVICE, bench.kube.put({**foreign(), "metadata": meta}))
    outcome = await bench.apply()
    assert (outcome.wrote, outcome.failures) == (True, ())


async def test_an_object_that_was_replaced_meanwhile_is_not_written(bench: Bench) -> None:
    await bench.apply()
    bench.kube.put(foreign())
    changed = {**SERVICE_BODY, "spec": {**SERVICE_BODY["spec"], "type": "NodePort"}}
    with pytest.raises(RetryLater) as raised:
        await bench.apply(changed)
    assert raised.value.delay == CONFLICT_SECONDS
    assert (bench.kube.find(SERVICE, NAME) or {})["spec"] == {"selector": {"app": "foreign"}}
    assert [f.reason for f in (await bench.apply(changed)).failures] == ["NameConflict"]


# --- Errors ---------------------------------------------------------------------------------------


async def test_a_rejected_object_is_told_and_not_tried_all_the_time(bench: Bench) -> None:
    error = ApiError(422, "Invalid", "spec.ports: bad")
    bench.kube.fail("apply", "Service", error, error)
    first, second = await bench.apply(), await bench.apply()
    assert first.failures == second.failures
    assert first.failures[0].reason == "ChildRejected"
    assert first.failures[0].message == "spec.ports: bad"
    assert len(bench.kube.writes()) == 1
    bench.now += REJECTED_SECONDS
    await bench.apply()
    assert len(bench.kube.writes()) == 2


async def test_a_field_of_the_wrong_type_is_the_objects_fault(bench: Bench) -> None:
    """Server-side apply has the status of a server error for it."""
    message = "failed to create typed patch object (n/a; v1, Kind=Service): .spec: expected map"
    bench.kube.fail("apply", "Service", ApiError(500, "InternalError", message))
    assert [f.message for f in (await bench.apply()).failures] == [message]


async def test_a_server_error_is_not_the_objects_fault(bench: Bench) -> None:
    bench.kube.fail("apply", "Service", ApiError(500, "InternalError", "etcd is away"))
    with pytest.raises(ApiError):
        await bench.apply()


async def test_a_corrected_object_is_tried_at_once(bench: Bench) -> None:
    bench.kube.fail("apply", "Service", ApiError(422, "Invalid", "bad"))
    await bench.apply()
    changed = {**SERVICE_BODY, "spec": {**SERVICE_BODY["spec"], "type": "NodePort"}}
    assert (await bench.apply(changed)).failures == ()


async def test_one_rejected_object_does_not_keep_the_others(bench: Bench) -> None:
    bench.kube.fail("apply", "Service", ApiError(403, "Forbidden", "quota"))
    world = World().store()
    outcome = await bench.apply(SERVICE_BODY, deployment.build(MODEL, world.stored[0], 1))
    assert outcome.wrote
    assert len(outcome.failures) == 1


async def test_retry_after_is_obeyed(bench: Bench) -> None:
    error = ApiError(429, "TooManyRequests", "slow down", retry_after=7)
    bench.kube.fail("apply", "Service", error)
    with pytest.raises(RetryLater) as raised:
        await bench.apply()
    assert raised.value.delay == 7


async def test_trouble_of_the_server_is_raised(bench: Bench) -> None:
    bench.kube.fail("apply", "Service", ApiError(500, "InternalError", "etcd"))
    with pytest.raises(ApiError):
        await bench.apply()


@pytest.mark.parametrize(
    "error",
    [ApiError(403, "NamespaceTerminating", "terminating"), ApiError(404, "NotFound", "namespace")],
)
async def test_a_namespace_that_goes_ends_the_work(bench: Bench, error: ApiError) -> None:
    bench.kube.fail("apply", "Service", error)
    with pytest.raises(NamespaceTerminating):
        await bench.apply()
