"""What a WarmModel says about its forecast, read without parsing the whole: most have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warmpod.controller.forecasting.series import SHAPES, Shape
from warmpod.controller.objects.views import ModelView


def mode_of(view: ModelView) -> str:
    return str(_spec(view).get("mode", "Off"))


def shape_of(view: ModelView) -> Shape:
    return SHAPES.get(str(_spec(view).get("season")), SHAPES["Day"])


def last_told(view: ModelView) -> Mapping[str, Any]:
    """`status.forecast`; empty where none is made any more."""
    status = view.body.get("status") or {}
    told: Mapping[str, Any] = status.get("forecast") or {}
    return told if mode_of(view) != "Off" else {}


def _spec(view: ModelView) -> Mapping[str, Any]:
    spec = view.body.get("spec")
    forecast = spec.get("forecast") if isinstance(spec, Mapping) else None
    return forecast if isinstance(forecast, Mapping) else {}
