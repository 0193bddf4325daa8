"""All that a pod template is rendered from, so that templates depend on nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from warmpod.api import WarmModel
from warmpod.engine import EngineFacts, facts_of, port_of
from warmpod.resources import images, weight_sets
from warmpod.resources.digests import Digests
from warmpod.resources.security import PodSecurity
from warmpod.resources.settings import Settings
from warmpod.resources.weight_sets import WeightSet


@dataclass(frozen=True)
class Rendering:
    model: WarmModel
    revision_hash: str
    digests: Digests
    pod_security: PodSecurity
    settings: Settings

    @cached_property
    def facts(self) -> EngineFacts:
        return facts_of(self.model.spec)

    @property
    def port(self) -> int:
        return port_of(self.model.spec)

    @property
    def scheme(self) -> str:
        return "https" if self.facts.tls else "http"

    @property
    def model_path(self) -> str:
        return self.sets[0].engine_path

    @property
    def engine_image(self) -> str:
        return images.pin(self.model.spec.engine.image, self.digests.engine)

    @cached_property
    def sets(self) -> tuple[WeightSet, ...]:
        """The model's own first."""
        return weight_sets.of(self.model, self.digests)


def image_volume(name: str, reference: str) -> dict[str, Any]:
    return {"name": name, "image": {"reference": reference, "pullPolicy": "IfNotPresent"}}


def mount(
    name: str, path: str, *, sub_path: str | None = None, read_only: bool = False
) -> dict[str, Any]:
    return (
        {"name": name, "mountPath": path}
        | ({"subPath": sub_path} if sub_path else {})
        | ({"readOnly": True} if read_only else {})
    )


def without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is not set: the API server would drop it, which would look like drift."""
    return {key: value for key, value in fields.items() if value not in (None, [], {}, "")}
