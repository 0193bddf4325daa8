"""Writes objects by server-side apply, and only those that need it.

An object is written when what we want differs from what we last wrote, or when somebody changed
our part of it since. After a start of the operator nothing is known to be written, so each object
is applied once; an apply that changes nothing changes nothing in the cluster either.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from warmpod import reasons
from warmpod.controller.cache import Cache
from warmpod.controller.kinds import Kind, kind_of
from warmpod.controller.kube import ApiError, Kube
from warmpod.controller.metrics import Metrics
from warmpod.controller.observed import Failure
from warmpod.controller.views import (
    ChildView,
    Key,
    Meta,
    Object,
    View,
    WorkloadView,
    meta_of,
    project,
)
from warmpod.controller.workqueue import RetryLater
from warmpod.resources.names import MANAGED_BY_LABEL, MODEL_LABEL

logger = logging.getLogger(__name__)

#: Seconds before an object that the API server refused is tried again unchanged.
REJECTED_SECONDS = 15.0
#: Seconds after a conflict; the cause is a race, so soon.
CONFLICT_SECONDS = 1.0


class NamespaceTerminating(Exception):
    """Nothing can be created any more, and everything is about to go."""


@dataclass(frozen=True)
class Outcome:
    wrote: bool
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class _Written:
    """What we last wrote and what the object was then."""

    digest: str
    meta: Meta


@dataclass(frozen=True, slots=True)
class _Rejected:
    digest: str
    failure: Failure
    until: float


class Applier:
    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._metrics = metrics
        self._clock = clock
        self._written: defaultdict[Key, dict[tuple[Kind, str], _Written]] = defaultdict(dict)
        self._rejected: defaultdict[Key, dict[tuple[Kind, str], _Rejected]] = defaultdict(dict)

    def forget(self, key: Key) -> None:
        self._written.pop(key, None)
        self._rejected.pop(key, None)

    async def apply(self, key: Key, owner_uid: str, objects: Iterable[Object]) -> Outcome:
        """Writes what needs it. Raises RetryLater, NamespaceTerminating, Unreachable, and ApiError
        for what is the server's trouble and not the object's."""
        wrote, failures = False, []
        for obj in objects:
            result = await self._apply(key, owner_uid, obj)
            if isinstance(result, Failure):
                failures.append(result)
            else:
                wrote = wrote or result
        return Outcome(wrote, tuple(failures))

    async def _apply(self, key: Key, owner_uid: str, obj: Object) -> bool | Failure:
        kind, name, digest = kind_of(obj), obj["metadata"]["name"], _digest(obj)
        live = await self._live(kind, obj)
        if live is not None:
            refused = _not_ours(obj, live.meta, owner_uid)
            if refused is not None:
                return refused
            written = self._written[key].get((kind, name))
            if written is not None and written.digest == digest and _intact(obj, live, written):
                return False
        rejected = self._rejected[key].get((kind, name))
        if rejected and rejected.digest == digest and self._clock() < rejected.until:
            return rejected.failure
        return await self._write(key, kind, obj, live, digest)

    async def _live(self, kind: Kind, obj: Object) -> View | None:
        """From the cache, or else from the API server: the cache knows nothing of objects without
        our label, and those are the ones that may be in the way."""
        meta = obj["metadata"]
        known = self._cache.get(kind, (meta["namespace"], meta["name"]))
        if known is not None:
            return known
        found = await self._kube.get(kind, meta["namespace"], meta["name"])
        return None if found is None else project(kind, found)

    async def _write(
        self, key: Key, kind: Kind, obj: Object, live: View | None, digest: str
    ) -> bool | Failure:
        name = obj["metadata"]["name"]
        self._metrics.writes.labels(kind.kind).inc()
        try:
            answer = await self._kube.apply(_with_uid(obj, live))
        except ApiError as error:
            failure = await self._judge(kind, obj, error)
            until = self._clock() + REJECTED_SECONDS
            self._rejected[key][(kind, name)] = _Rejected(digest, failure, until)
            return failure
        logger.info("applied %s %s/%s", kind.kind, key[0], name)
        self._rejected[key].pop((kind, name), None)
        self._cache.upsert(kind, answer)
        self._written[key][(kind, name)] = _Written(digest, meta_of(answer))
        return True

    async def _judge(self, kind: Kind, obj: Object, error: ApiError) -> Failure:
        """A Failure when it is the object that is wrong; raises for everything else."""
        meta = obj["metadata"]
        if error.reason == "NamespaceTerminating" or error.status == 404:
            raise NamespaceTerminating(meta["namespace"]) from error
        if error.status == 409:
            await self._refresh(kind, meta["namespace"], meta["name"])
            raise RetryLater(CONFLICT_SECONDS, str(error)) from error
        if error.retry_after is not None:
            raise RetryLater(error.retry_after, str(error)) from error
        if error.status not in (400, 403, 422) and not _is_badly_typed(error):
            raise error
        logger.warning("%s %s/%s: %s", kind.kind, meta["namespace"], meta["name"], error)
        return Failure(reasons.CHILD_REJECTED, _named(obj), error.message)

    async def _refresh(self, kind: Kind, namespace: str, name: str) -> None:
        found = await self._kube.get(kind, namespace, name)
        if found is not None:
            self._cache.upsert(kind, found)
        elif known := self._cache.get(kind, (namespace, name)):
            self._cache.drop(kind, known.meta)


def _is_badly_typed(error: ApiError) -> bool:
    """Server-side apply answers 500 for a field of the wrong type or of no type at all, which the
    opaque parts of a spec can hold."""
    return error.status == 500 and error.message.startswith("failed to create typed patch object")


def _not_ours(obj: Object, live: Meta, owner_uid: str) -> Failure | None:
    """Why the object that is there must not be written; None when it is ours."""
    labels = obj["metadata"]["labels"]
    same = all(live.labels.get(k) == labels[k] for k in (MANAGED_BY_LABEL, MODEL_LABEL))
    if live.owner_uid == owner_uid or (same and not live.owner_uid):
        if not live.deleting:
            return None
        return Failure(reasons.WAITING_FOR_DELETION, _named(obj), "is being deleted")
    if same:
        message = "belongs to an earlier WarmModel of this name and is about to be deleted"
        return Failure(reasons.WAITING_FOR_DELETION, _named(obj), message)
    message = "exists and does not belong to this WarmModel"
    return Failure(reasons.NAME_CONFLICT, _named(obj), message)


def _intact(obj: Object, live: View, written: _Written) -> bool:
    """Whether our part of the object is still as we wrote it."""
    if written.meta.uid != live.meta.uid:
        return False
    if written.meta.resource_version == live.meta.resource_version:
        # Nobody has touched it since. It may still differ from what we want, where an admission
        # webhook has the last word; writing again would not change that.
        return True
    if not _within(obj["metadata"]["labels"], live.meta.labels):
        return False
    if not _within(obj["metadata"].get("annotations", {}), live.meta.annotations):
        return False
    if isinstance(live, WorkloadView):
        return written.meta.generation == live.meta.generation
    if isinstance(live, ChildView):
        return _within(obj, live.body)
    return True  # a ControllerRevision, which nobody can change


def _within(wanted: Any, found: Any) -> bool:
    """Whether all that is wanted is found; defaults that the API server added do not count."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and _within(value, found[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(map(_within, wanted, found))
        )
    return bool(wanted == found)


def _with_uid(obj: Object, live: View | None) -> Object:
    """The uid makes the write fail if the object was replaced since we judged that it is ours."""
    if live is None:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "uid": live.meta.uid}}


def _digest(obj: Object) -> str:
    return hashlib.sha256(json.dumps(obj, sort_keys=True).encode()).hexdigest()


def _named(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata']['namespace']}/{obj['metadata']['name']}"
