"""A revision: one spec, its resolved digests and the pod templates, rendered once.

The templates are stored in a ControllerRevision and taken from there ever after. A newer operator
renders differently, but only for revisions that do not exist yet; so an operator upgrade restarts
no engine, and going back is choosing an older revision.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from warmpod.api import WarmModel, WarmModelSpec
from warmpod.resources import engine_pod, names, prefetch_pod
from warmpod.resources.digests import Digests
from warmpod.resources.rendering import Rendering
from warmpod.resources.security import PodSecurity
from warmpod.resources.settings import Settings

__all__ = ["Digests", "InvalidRevision", "Revision", "build", "compute_hash", "parse", "render"]

_HASH_DIGITS = 10
_PREFETCH_HASH_DIGITS = 8
_NOT_IN_PODS = {"replicas", "standby", "schedule", "forecast", "rollout", "cost"}


class InvalidRevision(ValueError):
    """A stored ControllerRevision cannot be read: delete it, and it is rendered again."""


@dataclass(frozen=True)
class Revision:
    name: str
    hash: str
    number: int
    digests: Digests
    engine_template: dict[str, Any]
    prefetch_template: dict[str, Any]

    @cached_property
    def prefetch_hash(self) -> str:
        """Identity of the prefetch pods: revisions with equal templates share them."""
        return _hash(self.prefetch_template, _PREFETCH_HASH_DIGITS)


def compute_hash(spec: WarmModelSpec) -> str:
    """Ten hex digits over all that shapes the pods, and nothing else.

    Fields that equal their default are left out, so that a field which a later version adds does
    not change the hash of a spec that does not use it. Of standby only the state counts: an engine
    that may sleep is started otherwise.
    """
    shaping = spec.model_dump(
        by_alias=True, exclude_defaults=True, exclude=_NOT_IN_PODS, mode="json"
    )
    if spec.standby.state == "Sleeping":
        shaping["standby"] = {"state": spec.standby.state}
    return _hash(shaping, _HASH_DIGITS)


def render(
    model: WarmModel, digests: Digests, pod_security: PodSecurity, settings: Settings, number: int
) -> Revision:
    """Render the templates; to be done once a revision and then stored with `build`."""
    revision_hash = compute_hash(model.spec)
    rendering = Rendering(model, revision_hash, digests, pod_security, settings)
    prefetch_template = prefetch_pod.template(rendering)
    prefetch_hash = _hash(prefetch_template, _PREFETCH_HASH_DIGITS)
    return Revision(
        name=names.controller_revision(model, revision_hash),
        hash=revision_hash,
        number=number,
        digests=digests,
        engine_template=engine_pod.template(rendering, prefetch_hash),
        prefetch_template=prefetch_template,
    )


def build(
    model: WarmModel, revision: Revision, annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The ControllerRevision that stores it; the API server lets nobody change its data. Of its
    annotations, those that are ours become these and no others."""
    metadata = names.child_metadata(model, revision.name, "engine")
    metadata["labels"][names.REVISION_LABEL] = revision.hash
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "revision": revision.number,
        "data": {
            "digests": _digests(revision.digests),
            "engineTemplate": revision.engine_template,
            "prefetchTemplate": revision.prefetch_template,
        },
    }


def parse(obj: Mapping[str, Any]) -> Revision:
    """Read a stored ControllerRevision; raises InvalidRevision and nothing else."""
    metadata = _mapping(obj, "metadata")
    name = _text(metadata, "name")
    data = _mapping(obj, "data", name)
    digests = _mapping(data, "digests", name)
    number = obj.get("revision")
    if not isinstance(number, int):
        raise InvalidRevision(f"ControllerRevision {name}: revision is not a number: delete it")
    return Revision(
        name=name,
        hash=_text(_mapping(metadata, "labels", name), names.REVISION_LABEL, name),
        number=number,
        digests=_read_digests(digests, name),
        engine_template=_mapping(data, "engineTemplate", name),
        prefetch_template=_mapping(data, "prefetchTemplate", name),
    )


def _mapping(parent: Mapping[str, Any], field: str, name: str = "") -> dict[str, Any]:
    value = parent.get(field)
    if not isinstance(value, dict):
        raise InvalidRevision(f"ControllerRevision {name}: {field} is missing: delete it")
    return value


def _text(parent: Mapping[str, Any], field: str, name: str = "") -> str:
    value = parent.get(field)
    if not isinstance(value, str) or not value:
        raise InvalidRevision(f"ControllerRevision {name}: {field} is missing: delete it")
    return value


def _digests(digests: Digests) -> dict[str, Any]:
    additional = {"additional": dict(digests.additional)} if digests.additional else {}
    cache = {"cache": digests.cache} if digests.cache else {}
    return {"engine": digests.engine, "model": digests.model, **additional, **cache}


def _read_digests(stored: Mapping[str, Any], name: str) -> Digests:
    """Older operators knew of no additional models and no image of a compile cache."""
    additional = _mapping(stored, "additional", name) if "additional" in stored else {}
    return Digests(
        engine=_digest(stored, "engine", name),
        model=_digest(stored, "model", name),
        additional={item: _digest(additional, item, name) for item in additional},
        cache=_digest(stored, "cache", name),
    )


def _digest(digests: Mapping[str, Any], field: str, name: str) -> str | None:
    return None if digests.get(field) is None else _text(digests, field, name)


def _hash(value: Mapping[str, Any], digits: int) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:digits]
