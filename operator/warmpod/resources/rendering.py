"""All that a pod template is rendered from, so that templates depend on nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from warmpod.api import WarmModel
from warmpod.engine import EngineFacts, facts_of, port_of
from warmpod.resources import images
from warmpod.resources.security import PodSecurity
from warmpod.resources.settings import Settings


@dataclass(frozen=True)
class Digests:
    """Digests that the tags were resolved to; None: not resolved, the image is used as written."""

    engine: str | None
    model: str | None


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
        """The same for every medium, because vLLM's compile cache key holds the path."""
        return f"/models/{self.model.served_name}"

    @property
    def engine_image(self) -> str:
        return images.pin(self.model.spec.engine.image, self.digests.engine)

    @property
    def model_image(self) -> str:
        return images.pin(self.model.spec.model.image, self.digests.model)

    @property
    def weights_key(self) -> str:
        return images.weights_key(self.model.spec.model.image, self.digests.model)


def image_volume(name: str, reference: str) -> dict[str, Any]:
    return {"name": name, "image": {"reference": reference, "pullPolicy": "IfNotPresent"}}


def mount(name: str, path: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"name": name, "mountPath": path} | ({"readOnly": True} if read_only else {})


def without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is not set: the API server would drop it, which would look like drift."""
    return {key: value for key, value in fields.items() if value not in (None, [], {}, "")}
