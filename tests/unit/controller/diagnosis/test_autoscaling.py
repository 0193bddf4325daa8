"""Autoscalers that are faster than pods get warm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.controller.builders import (
    NAME,
    NAMESPACE,
    NOW,
    Object,
    World,
    ago,
    engine,
    prefetch,
    warm_model,
)
from warmpod import reasons
from warmpod.controller.apiserver.kinds import AUTOSCALER
from warmpod.controller.diagnosis import autoscaling
from warmpod.controller.objects.autoscaler_view import DOWN_WINDOW, AutoscalerView, Speed
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.views import project
from warmpod.controller.plan import make

KEY = (NAMESPACE, NAME)
MODEL = {"apiVersion": "warmpod.io/v1alpha1", "kind": "WarmModel", "name": NAME}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
WAITING = {
    "type": "External",
    "external": {"metric": {"name": "waiting"}, "target": {"type": "AverageValue"}},
}
CPU = {"type": "Resource", "resource": {"name": "cpu"}}
ENGINE_CPU = {"type": "ContainerResource", "containerResource": {"name": "cpu"}}
MEMORY = {"type": "Resource", "resource": {"name": "memory"}}


def hpa(
    *,
    target: Object = MODEL,
    metrics: tuple[Object, ...] = (WAITING,),
    up: Object | None = None,
    down: Object | None = None,
    version: int = 1,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    behavior = {key: rules for key, rules in (("scaleUp", up), ("scaleDown", down)) if rules}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": "scaler",
            "namespace": NAMESPACE,
            "uid": "uid-scaler",
            "resourceVersion": str(version),
            "labels": labels or {},
        },
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": list(metrics),
            **({"behavior": behavior} if behavior else {}),
            **spec,
        },
    }


def view(**fields: Any) -> AutoscalerView:
    found = project(AUTOSCALER, hpa(**fields))
    assert isinstance(found, AutoscalerView)
    return found


def policies(*found: tuple[str, int, int], **rules: Any) -> Object:
    return {
        "policies": [{"type": t, "value": v, "periodSeconds": p} for t, v, p in found],
        **rules,
    }


def startup(seconds: int, **fields: Any) -> Object:
    return {"pod": "llama-0", "startSeconds": seconds, **fields}


# --- the measured start ---------------------------------------------------------------------------


def most(up: Speed, replicas: int, seconds: int, maximum: int) -> int:
    return max(autoscaling.growth(up, replicas, seconds, maximum))


def test_the_slowest_start_of_a_pod_counts_and_is_rounded_up() -> None:
    starts = [startup(31), startup(62, cause="pod-start"), startup(500, cause="engine-died"), {}]
    assert autoscaling.start_seconds(starts) == 75


def test_without_a_start_nothing_is_known() -> None:
    assert autoscaling.start_seconds([startup(20, cause="engine-died")]) is None
    assert list(autoscaling.problems([view()], [], 0)) == []


@pytest.mark.parametrize(("seconds", "rounded"), [(0, 15), (15, 15), (16, 30), (121, 180)])
def test_rounding(seconds: int, rounded: int) -> None:
    assert autoscaling.rounded(seconds) == rounded


# --- how far it may get ---------------------------------------------------------------------------


def test_the_defaults_reach_everything_within_a_minute() -> None:
    reached = [most(view().up, 1, seconds, 100) for seconds in (1, 16, 31, 46)]
    assert reached == [5, 10, 20, 40]


def test_a_policy_of_a_minute_gives_one_step_a_minute() -> None:
    up = view(up=policies(("Percent", 100, 60))).up
    assert [most(up, 2, seconds, 100) for seconds in (1, 60, 61, 121)] == [4, 4, 8, 16]


def test_of_two_policies_the_chosen_one_counts() -> None:
    rules = (("Pods", 4, 60), ("Percent", 50, 15))
    assert most(view(up=policies(*rules)).up, 2, 1, 100) == 6
    assert most(view(up=policies(*rules, selectPolicy="Min")).up, 2, 1, 100) == 3


# --- what is advised ------------------------------------------------------------------------------


def test_the_defaults_are_too_fast_and_the_message_says_what_to_set() -> None:
    assert autoscaling.advice(view(), 75, 0) == (
        "HorizontalPodAutoscaler scaler: pods take 75 s to be warm; it may add pods every 15 s, so "
        "those that warm up have it ask for more than the load does: set periodSeconds of every "
        "policy in scaleUp to 75 or more (in spec.behavior)"
    )


def test_what_is_advised_is_enough() -> None:
    slow = policies(("Pods", 2, 75), ("Percent", 100, 75))
    assert autoscaling.advice(view(up=slow), 75, 0) is None
    assert autoscaling.advice(view(up={"stabilizationWindowSeconds": 75}), 75, 0) is None


def test_one_quick_policy_is_too_many_unless_the_slowest_counts() -> None:
    mixed = (("Pods", 1, 75), ("Percent", 100, 15))
    assert autoscaling.advice(view(up=policies(*mixed)), 75, 0) is not None
    assert autoscaling.advice(view(up=policies(*mixed, selectPolicy="Min")), 75, 0) is None


@pytest.mark.parametrize("metrics", [(CPU,), (ENGINE_CPU,), ()])
def test_an_autoscaler_of_processor_time_leaves_out_pods_that_warm_up(
    metrics: tuple[Object, ...],
) -> None:
    assert autoscaling.advice(view(metrics=metrics), 75, 0) is None


def test_memory_is_not_left_out() -> None:
    assert autoscaling.advice(view(metrics=(MEMORY,)), 75, 0) is not None
    assert autoscaling.advice(view(metrics=(CPU, WAITING)), 75, 0) is not None


def test_a_single_step_cannot_be_repeated() -> None:
    assert autoscaling.advice(view(maxReplicas=4), 75, 0) is None
    assert autoscaling.advice(view(up={"selectPolicy": "Disabled"}), 75, 0) is None
    assert autoscaling.advice(view(), 15, 0) is None


def test_a_pool_that_covers_the_steps_is_as_good() -> None:
    up = policies(("Pods", 1, 15))
    assert autoscaling.advice(view(up=up), 60, 3) is not None
    assert autoscaling.advice(view(up=up), 60, 4) is None


def test_scaling_in_within_less_than_a_start() -> None:
    cpu = (CPU,)
    quick = view(metrics=cpu, down={"stabilizationWindowSeconds": 30})
    assert autoscaling.advice(quick, 75, 0) == (
        "HorizontalPodAutoscaler scaler: pods take 75 s to be warm; it lets pods go after 30 s of "
        "less load, in less time than a new one takes: set "
        "scaleDown.stabilizationWindowSeconds to 75 or more (in spec.behavior)"
    )
    assert autoscaling.advice(quick, 75, 1) is None
    assert autoscaling.advice(view(metrics=cpu, down={"selectPolicy": "Disabled"}), 900, 0) is None
    assert view().down.window == DOWN_WINDOW


def test_a_start_beyond_the_bounds_of_the_api_gets_what_can_be_set() -> None:
    slow = policies(("Pods", 1, 1800))
    message = autoscaling.advice(view(up=slow), 4000, 0)
    assert message is not None
    assert "set scaleUp.stabilizationWindowSeconds to 3600 or more" in message


def test_of_keda_the_object_that_can_be_changed_is_named() -> None:
    message = autoscaling.advice(view(labels={"scaledobject.keda.sh/name": "mine"}), 75, 0)
    assert message is not None
    assert message.startswith("ScaledObject mine: ")
    assert message.endswith("(in spec.advanced.horizontalPodAutoscalerConfig.behavior)")


def test_the_deployment_is_no_target() -> None:
    (found,) = autoscaling.problems([view(target=DEPLOYMENT)], [], 0)
    assert found.reason == reasons.AUTOSCALER_SCALES_DEPLOYMENT
    assert "scaler" in found.message
    assert "scaleTargetRef" in found.message


# --- how it is learned ----------------------------------------------------------------------------


def test_an_autoscaler_concerns_the_model_that_it_scales() -> None:
    cache = Cache()
    assert cache.upsert(AUTOSCALER, hpa()) == KEY
    assert [found.meta.name for found in cache.owned(AUTOSCALER, KEY)] == ["scaler"]
    assert cache.upsert(AUTOSCALER, hpa(version=2, target={**MODEL, "kind": "Other"})) is None
    assert cache.owned(AUTOSCALER, KEY) == []


def test_the_status_of_an_autoscaler_is_no_news() -> None:
    cache = Cache()
    cache.upsert(AUTOSCALER, hpa())
    assert cache.upsert(AUTOSCALER, {**hpa(version=2), "status": {"currentReplicas": 3}}) is None
    assert cache.upsert(AUTOSCALER, hpa(version=3, maxReplicas=4)) == KEY


def test_an_autoscaler_that_is_gone_is_news() -> None:
    cache = Cache()
    cache.upsert(AUTOSCALER, hpa())
    assert cache.remove(AUTOSCALER, hpa(version=2)) == KEY
    assert cache.owned(AUTOSCALER, KEY) == []
    cache.upsert(AUTOSCALER, hpa(version=3) | {"metadata": {**hpa()["metadata"], "uid": "other"}})
    assert cache.prune(AUTOSCALER, None, (), 9) == {KEY}


def test_labels_of_ours_on_an_autoscaler_make_it_nobodys() -> None:
    labels = {"warmpod.io/model": NAME}
    other = hpa(target={**MODEL, "kind": "Other"}, labels=labels)
    assert Cache().upsert(AUTOSCALER, other) is None


# --- where it is said -----------------------------------------------------------------------------


def test_ready_says_it_and_stays_true() -> None:
    status = {"lastStartups": [startup(62, warmTime=ago(minutes=1))]}
    world = World(model=warm_model(status=status)).store()
    world = world.prefetching(1, prefetch().resident()).deployed(engine().warm())
    plan = make(replace(world.observed(), autoscalers=(view(),)), NOW)
    assert plan.status is not None
    (ready,) = [c for c in plan.status["conditions"] if c["type"] == "Ready"]
    assert ready["status"] == "True"
    assert "set periodSeconds of every policy in scaleUp to 75 or more" in ready["message"]
    assert [advice.reason for advice in plan.advice] == ["AutoscalerTooFast"]
    assert [event.reason for event in plan.events] == []
