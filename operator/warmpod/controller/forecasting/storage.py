"""Where recorded load outlives the operator: a ConfigMap a model, a child of the WarmModel.

Neither the status, which everybody watches and whose every write is news, nor a volume, which the
operator has none of. An hour that is lost is no loss for a cycle of days, so it is written once an
hour.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warmpod.api import WarmModel
from warmpod.controller.apiserver.kinds import CONFIG_MAP
from warmpod.controller.apiserver.kube import ApiError, Kube, Unreachable
from warmpod.resources import names

logger = logging.getLogger(__name__)

Object = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    season: str
    per_pod: int
    series: str
    scores: list[list[int | None]]


class Storage:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def read(self, model: WarmModel) -> Stored | None:
        """None where there is nothing, or nothing that can be used. Raises ApiError and
        Unreachable: who cannot read must not write either, or the days before would be lost."""
        found = await self._kube.get(CONFIG_MAP, model.namespace, names.load_record(model))
        if found is None:
            return None
        if not _is_of(found, model):
            raise ApiError(409, "Conflict", f"{_name(model)} belongs to somebody else")
        try:
            return _parse(found.get("data") or {})
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("%s cannot be read and is begun anew: %s", _name(model), error)
            return None

    async def write(self, model: WarmModel, stored: Stored) -> bool:
        """Whether it was; what goes wrong is told, and is tried again an hour later."""
        try:
            await self._kube.apply(build(model, stored))
        except (ApiError, Unreachable) as error:
            logger.warning("%s cannot be written: %s", _name(model), error)
            return False
        return True


def _name(model: WarmModel) -> str:
    return f"ConfigMap {model.namespace}/{names.load_record(model)}"


def _is_of(found: Object, model: WarmModel) -> bool:
    owners = found["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == model.uid for owner in owners)


def _parse(data: Mapping[str, str]) -> Stored:
    scores = json.loads(data["scores"])
    if not isinstance(scores, list):
        raise ValueError("scores is not a list")
    return Stored(data["season"], int(data["requestsPerPod"]), data["series"], scores)


def build(model: WarmModel, stored: Stored) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": names.child_metadata(model, names.load_record(model), "engine"),
        "data": {
            "season": stored.season,
            "requestsPerPod": str(stored.per_pod),
            "series": stored.series,
            "scores": json.dumps(stored.scores, separators=(",", ":")),
        },
    }
