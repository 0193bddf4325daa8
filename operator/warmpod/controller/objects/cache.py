"""The operator's picture of the cluster: projected objects by kind, name and owning WarmModel.

Fed by watch events, by the answers to the operator's own writes, and by lists. Whatever comes, an
object only moves forward in resourceVersion (comparable as integers since Kubernetes 1.35, and in
practice long before), so an event that was under way while we wrote cannot take us back, a decision
is never made on a state older than our own last write, and the echo of our own write is no news.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable

from warmpod.controller.apiserver.kinds import CACHED, OPTIONAL, WARM_MODEL, Kind
from warmpod.controller.objects.autoscaler_view import AutoscalerView
from warmpod.controller.objects.views import Key, Meta, ModelView, Object, View, owner_of, project

#: How many deleted objects are remembered, so that a late answer does not bring them back.
TOMBSTONES = 2000


class Cache:
    def __init__(self, *changed: Callable[[View | None, View | None], None]) -> None:
        """`changed` are told of every change: what was known of an object, and what is now. One
        that was not known before, or is not there any more, is None."""
        self._changed = changed
        kinds = (*CACHED, *OPTIONAL)
        self._objects: dict[Kind, dict[Key, View]] = {kind: {} for kind in kinds}
        self._owned: dict[Kind, defaultdict[Key, set[Key]]] = {
            kind: defaultdict(set) for kind in kinds
        }
        #: By uid, the version at which an object went. A newer one of that uid is news: an object
        #: that lost its label is "deleted" for a watch by label, and comes back with the label.
        self._gone: OrderedDict[str, int] = OrderedDict()

    def get(self, kind: Kind, key: Key) -> View | None:
        return self._objects[kind].get(key)

    def model(self, key: Key) -> ModelView | None:
        found = self.get(WARM_MODEL, key)
        return found if isinstance(found, ModelView) else None

    def models(self) -> list[ModelView]:
        return [view for view in self.every(WARM_MODEL) if isinstance(view, ModelView)]

    def every(self, kind: Kind) -> list[View]:
        return list(self._objects[kind].values())

    def owned(self, kind: Kind, owner: Key) -> list[View]:
        """The objects that carry the label of that WarmModel, sorted by name."""
        objects = self._objects[kind]
        return [objects[key] for key in sorted(self._owned[kind].get(owner, ()))]

    def upsert(self, kind: Kind, obj: Object) -> Key | None:
        """Takes an object in; returns the WarmModel it concerns, or None if it is no news."""
        view = project(kind, obj)
        key = view.meta.key
        known = self._objects[kind].get(key)
        version = view.meta.resource_version
        if version <= self._gone.get(view.meta.uid, -1):
            return None
        if known is not None and version <= known.meta.resource_version:
            return None
        if known is not None:
            self._forget(kind, known)
        self._objects[kind][key] = view
        self._tell(known, view)
        owner = owner_of(kind, view)
        if owner is not None:
            self._owned[kind][owner].add(key)
        return None if _says_the_same(known, view) else owner

    def remove(self, kind: Kind, obj: Object) -> Key | None:
        """Takes an object out that the API server says is deleted."""
        meta = project(kind, obj).meta
        self._bury(meta)
        known = self._objects[kind].get(meta.key)
        if known is None or known.meta.uid != meta.uid:
            return None
        self._forget(kind, known)
        self._tell(known, None)
        return owner_of(kind, known)

    def drop(self, kind: Kind, meta: Meta) -> None:
        """Takes an object out that was found to be gone."""
        self._bury(meta)
        known = self._objects[kind].get(meta.key)
        if known is not None:
            self._forget(kind, known)
            self._tell(known, None)

    def prune(
        self, kind: Kind, namespace: str | None, listed: Iterable[str], version: int
    ) -> set[Key]:
        """Takes out what a list of uids at that resource version no longer has.

        A watch that starts anew never tells about objects that went away in between.
        """
        uids = set(listed)
        owners = set()
        for view in self.every(kind):
            meta = view.meta
            if namespace not in (None, meta.namespace) or meta.uid in uids:
                continue
            if meta.resource_version <= version:
                self.drop(kind, meta)
                if (owner := owner_of(kind, view)) is not None:
                    owners.add(owner)
        return owners

    def _tell(self, before: View | None, after: View | None) -> None:
        for changed in self._changed:
            changed(before, after)

    def _forget(self, kind: Kind, known: View) -> None:
        del self._objects[kind][known.meta.key]
        owner = owner_of(kind, known)
        if owner is not None:
            names = self._owned[kind][owner]
            names.discard(known.meta.key)
            if not names:
                del self._owned[kind][owner]

    def _bury(self, meta: Meta) -> None:
        self._gone[meta.uid] = meta.resource_version
        while len(self._gone) > TOMBSTONES:
            self._gone.popitem(last=False)


def _says_the_same(before: View | None, after: View) -> bool:
    if isinstance(before, AutoscalerView) and isinstance(after, AutoscalerView):
        return before.says_the_same(after)
    return False
