"""What the operator keeps of a HorizontalPodAutoscaler: whom it scales, and how fast it may."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from warmpod.controller.objects.meta import Key, Meta, Object
from warmpod.protocol import GROUP, KIND

#: KEDA's label on the autoscalers that it makes: the name of their ScaledObject.
SCALED_OBJECT_LABEL = "scaledobject.keda.sh/name"

#: Seconds; the default of the controller manager's
#: `--horizontal-pod-autoscaler-downscale-stabilization`, which an API client cannot read.
DOWN_WINDOW = 300


@dataclass(frozen=True, slots=True)
class Policy:
    """So many pods, or percent of the pods that there are, may be added within the period."""

    percent: bool
    value: int
    period: int
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast an autoscaler may go in one direction."""

    window: int
    """Seconds of which it takes the most cautious recommendation."""
    policies: tuple[Policy, ...]
    select: str
    """Max, Min or Disabled: which of the policies counts."""


#: What an autoscaler does that says nothing:
#: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#default-behavior
_UP = Speed(0, (Policy(False, 4, 15), Policy(True, 100, 15)), "Max")
_DOWN = Speed(DOWN_WINDOW, (Policy(True, 100, 15),), "Max")


@dataclass(frozen=True, slots=True)
class AutoscalerView:
    meta: Meta
    target: Key | None
    """The WarmModel that it scales, or whose Deployment; None for anything else."""
    scales_deployment: bool
    scaled_object: str
    """KEDA's object that it was made from; empty for none."""
    minimum: int
    maximum: int
    only_cpu: bool
    """Whether it goes by nothing but processor time. Of that, and of nothing else, it leaves out
    what pods use that are not Ready yet."""
    up: Speed
    down: Speed

    def says_the_same(self, other: AutoscalerView) -> bool:
        """Its controller writes an autoscaler's status all the time, of which nothing is kept."""
        return replace(self, meta=other.meta) == other


def autoscaler_view(meta: Meta, obj: Object) -> AutoscalerView:
    spec = obj.get("spec") or {}
    behavior = spec.get("behavior") or {}
    scales_model, scales_deployment = _scales(spec.get("scaleTargetRef") or {})
    found = scales_model or scales_deployment
    return AutoscalerView(
        meta=meta,
        # A WarmModel's Deployment has its name.
        target=(meta.namespace, spec["scaleTargetRef"]["name"]) if found else None,
        scales_deployment=scales_deployment,
        scaled_object=meta.labels.get(SCALED_OBJECT_LABEL, ""),
        minimum=int(spec.get("minReplicas", 1)),
        maximum=int(spec.get("maxReplicas", 1)),
        only_cpu=all(map(_is_cpu, spec.get("metrics") or ())),
        up=_speed(behavior.get("scaleUp"), _UP),
        down=_speed(behavior.get("scaleDown"), _DOWN),
    )


def _scales(reference: Object) -> tuple[bool, bool]:
    group = str(reference.get("apiVersion") or "").partition("/")[0]
    kind = (group, reference.get("kind"))
    return kind == (GROUP, KIND), kind == ("apps", "Deployment")


def _is_cpu(metric: dict[str, Any]) -> bool:
    source = metric.get("resource") or metric.get("containerResource") or {}
    return bool(source.get("name") == "cpu")


def _speed(rules: Object | None, default: Speed) -> Speed:
    if not rules:
        return default
    window = rules.get("stabilizationWindowSeconds")
    return Speed(
        window=default.window if window is None else int(window),
        policies=tuple(_policies(rules.get("policies") or ())) or default.policies,
        select=rules.get("selectPolicy") or default.select,
    )


def _policies(policies: Iterable[Object]) -> Iterable[Policy]:
    for policy in policies:
        yield Policy(policy["type"] == "Percent", int(policy["value"]), policy["periodSeconds"])
