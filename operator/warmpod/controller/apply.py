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

from warmpod import reasons
from warmpod.controller.apiserver.kinds import Kind, described, kind_of
from warmpod.controller.apiserver.kube import ApiError, Kube
from warmpod.controller.diagnosis.refused import Failure
from warmpod.controller.edits.intact import intact
from warmpod.controller.edits.undoing import Undoing, edits_of, undone
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.views import Key, Meta, Object, View, meta_of, project
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.controller.telling.metrics import Metrics
from warmpod.controller.telling.transition import Transition
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
    events: tuple[Transition, ...] = ()
    """About what others had set, and we undid."""


@dataclass(frozen=True, slots=True)
class _Written:
    """What we last wrote and what the object was then."""

    digest: str
    meta: Meta


@dataclass(frozen=True, slots=True)
class _Course:
    """What is to be done about an object."""

    write: bool
    undo: bool = False
    """Whether what others have set in it is taken out."""
    changed: bool = False
    """Whether others have changed our part of it since we wrote it."""


_WRITE = _Course(write=True)


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
        self._undoing = Undoing(kube, cache, clock)

    def forget(self, key: Key) -> None:
        self._undoing.forget(key)
        self._written.pop(key, None)
        self._rejected.pop(key, None)

    async def apply(self, key: Key, owner_uid: str, objects: Iterable[Object]) -> Outcome:
        """Writes what needs it. Raises RetryLater, NamespaceTerminating, Unreachable, and ApiError
        for what is the server's trouble and not the object's."""
        results = [await self._apply(key, owner_uid, obj) for obj in objects]
        failures = tuple(result for result in results if isinstance(result, Failure))
        events = tuple(result for result in results if isinstance(result, Transition))
        return Outcome(bool(events) or True in results, failures, events)

    async def _apply(self, key: Key, owner_uid: str, obj: Object) -> bool | Failure | Transition:
        """Whether it was written; or why not; or what was undone by it."""
        kind, name, digest = kind_of(obj), obj["metadata"]["name"], _digest(obj)
        live, course = await self._live(kind, obj), _WRITE
        if live is not None:
            refused = _not_ours(obj, live.meta, owner_uid)
            if refused is not None:
                return refused
            course = self._course(key, obj, live, digest)
        if not course.write:
            return self._undoing.left(key, obj, edits_of(live)) or False
        rejected = self._rejected[key].get((kind, name))
        if rejected and rejected.digest == digest and self._clock() < rejected.until:
            return rejected.failure
        result = await self._write(key, obj, live, course)
        return undone(obj, edits_of(live)) if result is True and course.undo else result

    def _course(self, key: Key, obj: Object, live: View, digest: str) -> _Course:
        """What is to be done about an object that is there."""
        written = self._written[key].get((kind_of(obj), obj["metadata"]["name"]))
        undo = bool(edits_of(live)) and self._undoing.may_undo(key, obj, live)
        if written is None or written.digest != digest:
            return _Course(write=True, undo=undo)
        changed = not intact(obj, live, written.meta)
        put_right = changed and self._undoing.may_put_right(key, obj)
        return _Course(write=undo or put_right, undo=undo, changed=changed)

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
        self, key: Key, obj: Object, live: View | None, course: _Course
    ) -> bool | Failure:
        kind, name, digest = kind_of(obj), obj["metadata"]["name"], _digest(obj)
        self._metrics.writes.labels(kind.kind).inc()
        try:
            if course.undo:
                # What is ours now, and was not applied, looks like what we want.
                self._written[key].pop((kind, name), None)
                await self._undoing.take_over(obj)
            answer = await self._kube.apply(_with_uid(obj, live))
        except ApiError as error:
            failure = await self._judge(kind, obj, error)
            until = self._clock() + REJECTED_SECONDS
            self._rejected[key][(kind, name)] = _Rejected(digest, failure, until)
            return failure
        logger.info("applied %s %s/%s", kind.kind, key[0], name)
        self._rejected[key].pop((kind, name), None)
        self._cache.upsert(kind, answer)
        meta = meta_of(answer)
        self._written[key][(kind, name)] = _Written(digest, meta)
        if live is not None and _put_right(course, live.meta, meta):
            self._undoing.note(key, obj, edits_of(live))
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
        return Failure(reasons.CHILD_REJECTED, described(obj), error.message)

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
        return Failure(reasons.WAITING_FOR_DELETION, described(obj), "is being deleted")
    if same:
        message = "belongs to an earlier WarmModel of this name and is about to be deleted"
        return Failure(reasons.WAITING_FOR_DELETION, described(obj), message)
    message = "exists and does not belong to this WarmModel"
    return Failure(reasons.NAME_CONFLICT, described(obj), message)


def _put_right(course: _Course, before: Meta, after: Meta) -> bool:
    """Whether a write undid what others did; one that changes nothing leaves the version as is."""
    newer = after.resource_version != before.resource_version
    return newer and (course.undo or course.changed)


def _with_uid(obj: Object, live: View | None) -> Object:
    """The uid makes the write fail if the object was replaced since we judged that it is ours."""
    if live is None:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "uid": live.meta.uid}}


def _digest(obj: Object) -> str:
    return hashlib.sha256(json.dumps(obj, sort_keys=True).encode()).hexdigest()
