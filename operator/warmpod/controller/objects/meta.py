"""What the operator keeps of the metadata of every object."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from warmpod.protocol import GROUP

Object = dict[str, Any]
#: Namespace and name of a WarmModel.
Key = tuple[str, str]
#: A ReplicaSet that has pods too many deletes those with the least of it first, among pods that are
#: equally ready.
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


@dataclass(frozen=True, slots=True)
class Meta:
    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int
    labels: Mapping[str, str]
    deleting: bool
    created: datetime | None
    owner_uid: str
    """uid of the controlling owner; empty for none."""
    annotations: Mapping[str, str]
    """Ours, and what decides which pod its controller deletes first."""

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


def meta_of(obj: Object) -> Meta:
    meta = obj["metadata"]
    return Meta(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta.get("uid", ""),
        resource_version=int(meta.get("resourceVersion") or 0),
        generation=int(meta.get("generation") or 0),
        # Thousands of objects share them.
        labels={intern(k): intern(v) for k, v in (meta.get("labels") or {}).items()},
        deleting="deletionTimestamp" in meta,
        created=parse_time(meta.get("creationTimestamp")),
        owner_uid=next(
            (o["uid"] for o in meta.get("ownerReferences") or [] if o.get("controller")), ""
        ),
        annotations={
            intern(key): value
            for key, value in (meta.get("annotations") or {}).items()
            if key.startswith(f"{GROUP}/") or key == DELETION_COST
        },
    )


def intern(text: str) -> str:
    """The same string object for the same text, which thousands of objects have."""
    return sys.intern(str(text))


def event_time(event: Object) -> datetime:
    """When what an event tells of was seen last."""
    series = (event.get("series") or {}).get("lastObservedTime")
    text = series or event.get("lastTimestamp") or event.get("eventTime")
    return parse_time(text) or datetime.fromtimestamp(0, UTC)


def time_text(at: datetime) -> str:
    """Whole seconds, as Kubernetes writes them; `at` is in UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str | None) -> datetime | None:
    """RFC 3339 as Kubernetes writes it, with or without fractions of a second."""
    return datetime.fromisoformat(text) if text else None
