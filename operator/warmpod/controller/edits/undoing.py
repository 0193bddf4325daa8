"""When what others have set in our objects is taken out, and how.

At once, unless engines that are warm would be replaced for it. And not for ever: whoever sets the
same fields again and again is told about instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from warmpod import reasons
from warmpod.controller.apiserver.kinds import DEPLOYMENT, POD, Kind, described, kind_of
from warmpod.controller.apiserver.kube import ApiError, Kube
from warmpod.controller.diagnosis.refused import Failure
from warmpod.controller.objects import ownership
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.engine_pods import is_warm, sleeps
from warmpod.controller.objects.ownership import Edit
from warmpod.controller.objects.views import ChildView, Key, Object, PodView, View, WorkloadView
from warmpod.controller.telling.transition import Transition
from warmpod.protocol import REMEDY
from warmpod.resources.names import REVISION_LABEL

#: How often in an hour an object is put right at once.
TIMES = 3
HOUR = 3600.0
#: Seconds after which our own fields are put right again all the same.
REST = 60.0

Child = tuple[Kind, str]


@dataclass(frozen=True, slots=True)
class _Record:
    """What was done to one object."""

    times: tuple[float, ...] = ()
    """When it was put right, within the last hour."""
    what: str = ""
    """Who had set what, the last time that this was known."""


class Undoing:
    def __init__(self, kube: Kube, cache: Cache, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._cache = cache
        self._clock = clock
        self._records: defaultdict[Key, dict[Child, _Record]] = defaultdict(dict)

    def forget(self, key: Key) -> None:
        self._records.pop(key, None)

    def may_undo(self, key: Key, obj: Object, live: View) -> bool:
        """Whether what others added to the object is to be taken out now."""
        if self._is_contested(key, obj):
            return False
        pods = (pod for pod in self._cache.owned(POD, key) if isinstance(pod, PodView))
        return not runs_with(obj, live, pods)

    def may_put_right(self, key: Key, obj: Object) -> bool:
        """Whether fields of ours that others changed are to be set again now."""
        times = self._record(key, obj).times
        return len(times) < TIMES or self._clock() - times[-1] >= REST

    def note(self, key: Key, obj: Object, edits: tuple[Edit, ...]) -> None:
        """The object was put right."""
        before = self._record(key, obj)
        what = ownership.told(edits) or before.what
        self._records[key][_child(obj)] = _Record((*before.times, self._clock()), what)

    def left(self, key: Key, obj: Object, edits: tuple[Edit, ...]) -> Failure | None:
        """What is said of an object that is left as others want it; None for one that is as we
        want it. Somebody who does not give up is named between two attempts, too: an event and a
        new status each minute would say the same."""
        record = self._record(key, obj)
        if self._is_contested(key, obj):
            why = f"That was undone {TIMES} times within an hour"
        elif edits:
            why = "Warm engine pods have it, so it stays until another revision replaces them"
        else:
            return None
        what = ownership.told(edits) or record.what or "fields are changed again and again"
        return Failure(reasons.CHILD_EDITED, described(obj), f"{what}. {why}")

    async def take_over(self, obj: Object) -> None:
        """Makes what others set our own; fails with 409 if the object changes meanwhile."""
        kind, meta = kind_of(obj), obj["metadata"]
        found = await self._kube.get(kind, meta["namespace"], meta["name"])
        if found is None:
            return
        version, fields = found["metadata"]["resourceVersion"], ownership.taken_over(kind, found)
        steps: list[Object] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": "/metadata/managedFields", "value": fields},
        ]
        try:
            await self._kube.patch(kind, meta["namespace"], meta["name"], steps)
        except ApiError as error:
            if error.status != 404:
                raise

    def _is_contested(self, key: Key, obj: Object) -> bool:
        return len(self._record(key, obj).times) >= TIMES

    def _record(self, key: Key, obj: Object) -> _Record:
        known = self._records.get(key, {}).get(_child(obj), _Record())
        since = self._clock() - HOUR
        return replace(known, times=tuple(time for time in known.times if time > since))


def edits_of(live: View | None) -> tuple[Edit, ...]:
    return live.edits if isinstance(live, WorkloadView | ChildView) else ()


def runs_with(obj: Object, live: View, pods: Iterable[PodView]) -> bool:
    """Whether engines that are warm would be replaced if edits were taken out of their Deployment.

    A pod that is older than the edit was made without it. Another revision replaces all pods
    anyway.
    """
    if kind_of(obj) is not DEPLOYMENT or not isinstance(live, WorkloadView):
        return False
    if obj["spec"]["template"]["metadata"]["labels"][REVISION_LABEL] != live.template:
        return False
    costly = [pod.meta.created for pod in pods if is_warm(pod) or sleeps(pod)]
    return any(_is_since(at, edit) for at in costly for edit in live.edits if edit.in_template)


def undone(obj: Object, edits: tuple[Edit, ...]) -> Transition:
    told = f"{described(obj)}: {ownership.told(edits)}: undone"
    message = f"{told}{REMEDY}{reasons.EDIT_UNDONE.remedy}"
    return Transition("Warning", reasons.EDIT_UNDONE, message)


def _is_since(created: datetime | None, edit: Edit) -> bool:
    return created is None or edit.at is None or created >= edit.at


def _child(obj: Object) -> Child:
    return kind_of(obj), obj["metadata"]["name"]
