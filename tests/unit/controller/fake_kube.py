"""An API server in memory, with the interface of `Kube`.

It knows what the operator relies on: resource versions that go up, generations that move with the
spec, uids, preconditions, and merging of applied fields. It knows neither schemas nor field
ownership; those are tested against a real API server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

from warmpod.controller.apiserver.kinds import Kind, kind_of
from warmpod.controller.apiserver.kube import ApiError

Object = dict[str, Any]
Place = tuple[Kind, str, str]


class FakeKube:
    def __init__(self) -> None:
        self.objects: dict[Place, Object] = {}
        self.calls: list[tuple[str, str, str]] = []
        """Verb, kind and name of every request."""
        self.failures: dict[tuple[str, str], list[Exception]] = {}
        """Verb and kind: what the next such requests raise."""
        self.admit: Callable[[Object], Object] = lambda obj: obj
        """What an admission webhook makes of an applied object."""
        self._version = 100

    # --- what tests do ----------------------------------------------------------------------------

    def fail(self, verb: str, kind: str, *errors: Exception) -> None:
        self.failures.setdefault((verb, kind), []).extend(errors)

    def put(self, obj: Object) -> Object:
        """As another client would."""
        return self._store(kind_of(obj), deepcopy(obj))

    def find(self, kind: Kind, name: str, namespace: str = "models") -> Object | None:
        return self.objects.get((kind, namespace, name))

    def writes(self) -> list[tuple[str, str, str]]:
        return [call for call in self.calls if call[0] not in ("get", "list")]

    # --- the interface of Kube --------------------------------------------------------------------

    async def request(self, method: str, path: str, *, query: Object | None = None) -> Object:
        self.calls.append(("request", method, path))
        waiting = self.failures.get(("request", path))
        if waiting:
            raise waiting.pop(0)
        return {"items": []}

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        self._called("get", kind, name)
        found = self.objects.get((kind, namespace or "", name))
        return deepcopy(found)

    async def list_pages(
        self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[tuple[list[Object], int]]:
        self._called("list", kind, labels or fields)
        found = [
            deepcopy(obj)
            for (of_kind, where, _), obj in self.objects.items()
            if of_kind is kind and namespace in (None, where) and _selected(obj, labels)
        ]
        half = len(found) // 2
        for page in (found[:half], found[half:]):
            yield page, self._version

    async def apply(self, obj: Object, *, subresource: str | None = None) -> Object:
        kind, meta = kind_of(obj), obj["metadata"]
        self._called("apply", kind, meta["name"])
        known = self.objects.get((kind, meta["namespace"], meta["name"]))
        if subresource == "status":
            if known is None:
                raise ApiError(404, "NotFound", "not found")
            return deepcopy(self._store(kind, {**known, "status": deepcopy(obj["status"])}))
        if "uid" in meta and (known is None or known["metadata"]["uid"] != meta["uid"]):
            raise ApiError(409, "Conflict", "uid mismatch")
        merged = self.admit(_merge(known or {}, obj))
        return deepcopy(self._store(kind, merged))

    async def create(self, obj: Object) -> Object:
        kind, meta = kind_of(obj), obj["metadata"]
        self._called("create", kind, meta["name"])
        if (kind, meta["namespace"], meta["name"]) in self.objects:
            raise ApiError(409, "AlreadyExists", "already exists")
        return deepcopy(self._store(kind, deepcopy(obj)))

    async def replace(self, obj: Object) -> Object:
        kind, meta = kind_of(obj), obj["metadata"]
        self._called("replace", kind, meta["name"])
        known = self.objects[(kind, meta["namespace"], meta["name"])]
        version = meta.get("resourceVersion")
        if version and version != known["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        return deepcopy(self._store(kind, deepcopy(obj)))

    async def merge(self, kind: Kind, namespace: str, name: str, body: Object) -> Object:
        self._called("merge", kind, name)
        meta = body.get("metadata", {})
        known = self._known(kind, namespace, name, meta.get("uid"))
        if meta.get("resourceVersion") not in (None, known["metadata"]["resourceVersion"]):
            raise ApiError(409, "Conflict", "the object has been modified")
        return deepcopy(self._store(kind, _without_nulls(_merge(known, body))))

    async def merge_lists(self, kind: Kind, namespace: str, name: str, body: Object) -> Object:
        """Knows the one list that the operator changes this way: by `$patch: delete`."""
        self._called("merge_lists", kind, name)
        known = deepcopy(self._known(kind, namespace, name, body["metadata"].get("uid")))
        for patched in body.get("spec", {}).get("schedulingGates", ()):
            assert patched["$patch"] == "delete"
            gates = known["spec"].get("schedulingGates", [])
            kept = [gate for gate in gates if gate["name"] != patched["name"]]
            known["spec"]["schedulingGates"] = kept
        labels = {**known["metadata"]["labels"], **body["metadata"].get("labels", {})}
        known["metadata"]["labels"] = {k: v for k, v in labels.items() if v is not None}
        return deepcopy(self._store(kind, known))

    async def patch(self, kind: Kind, namespace: str, name: str, steps: list[Object]) -> Object:
        """The steps `test`, `remove` and `replace`, in lists and objects."""
        self._called("patch", kind, name)
        found = deepcopy(self._known(kind, namespace, name))
        for step in steps:
            *way, last = [int(p) if p.isdigit() else p for p in step["path"].split("/")[1:]]
            parent: Any = found
            try:
                for part in way:
                    parent = parent[part]
                value = parent[last]
            except (KeyError, IndexError):
                value = None
            if step["op"] == "test" and value != step["value"]:
                raise ApiError(422, "Invalid", "test failed")
            if step["op"] == "remove":
                del parent[last]
            if step["op"] == "replace" and last == "resourceVersion" and step["value"] != value:
                raise ApiError(409, "Conflict", "the object has been modified")
            if step["op"] == "replace":
                parent[last] = step["value"]
        return deepcopy(self._store(kind, found))

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str) -> None:
        self._called("delete", kind, name)
        found = self.objects.get((kind, namespace, name))
        if found is not None and found["metadata"]["uid"] == uid:
            del self.objects[(kind, namespace, name)]

    # --- how it works -----------------------------------------------------------------------------

    def _called(self, verb: str, kind: Kind, name: str) -> None:
        self.calls.append((verb, kind.kind, name))
        waiting = self.failures.get((verb, kind.kind))
        if waiting:
            raise waiting.pop(0)

    def _known(self, kind: Kind, namespace: str, name: str, uid: str | None = None) -> Object:
        found = self.objects.get((kind, namespace, name))
        if found is None:
            raise ApiError(404, "NotFound", "not found")
        if uid not in (None, found["metadata"]["uid"]):
            raise ApiError(409, "Conflict", "uid mismatch")
        return found

    def _store(self, kind: Kind, obj: Object) -> Object:
        meta = obj["metadata"]
        place = (kind, meta.get("namespace", ""), meta["name"])
        known = self.objects.get(place)
        if known is not None and _without_version(known) == _without_version(obj):
            return known
        self._version += 1
        meta.setdefault("uid", f"uid-{self._version}")
        meta["resourceVersion"] = str(self._version)
        before = known["metadata"].get("generation", 0) if known else 0
        changed = known is None or known.get("spec") != obj.get("spec")
        meta["generation"] = before + 1 if changed else before
        self.objects[place] = obj
        return obj


def _without_version(obj: Object) -> Object:
    moving = {"resourceVersion", "generation"}
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in moving}}


def _merge(known: Any, applied: Any) -> Any:
    if isinstance(known, dict) and isinstance(applied, dict):
        return {
            key: _merge(known.get(key), applied[key]) if key in applied else deepcopy(known[key])
            for key in {**known, **applied}
        }
    return deepcopy(applied)


def _without_nulls(obj: Any) -> Any:
    """A merge patch takes away what it sets to null."""
    if not isinstance(obj, dict):
        return obj
    return {key: _without_nulls(value) for key, value in obj.items() if value is not None}


def _selected(obj: Object, selector: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return all(
        labels.get(key) == value
        for key, _, value in (term.partition("=") for term in selector.split(",") if term)
    )
