"""What others have set in objects that are ours alone, by who owns which field.

The API server writes down who set each field (`metadata.managedFields`). Applying an object puts
our own fields right and leaves those that others added; here these are found, and made ours, so
that the next apply, which lacks them, takes them out. That is how kubectl moves from one way of
applying to the other (k8s.io/client-go/util/csaupgrade).

What an admission webhook changes has no owner, so it never counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from warmpod.controller.apiserver.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    Kind,
)
from warmpod.controller.apiserver.kube import FIELD_MANAGER
from warmpod.controller.objects.meta import Object, parse_time

#: The format FieldsV1: keys are steps (`f:` a field, `k:` an item of a list by its keys, `v:` by
#: its value, `i:` by its number, `.` the parent itself), values are what is owned below.
#: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta
Tree = dict[str, Any]
Path = tuple[str, ...]

#: Where we decide about everything. Labels and annotations of the objects are for everybody, and
#: some distributions add pull secrets to every ServiceAccount.
_OURS: Mapping[Kind, tuple[str, ...]] = {
    DEPLOYMENT: ("f:spec",),
    DAEMON_SET: ("f:spec",),
    SERVICE: ("f:spec",),
    DISRUPTION_BUDGET: ("f:spec",),
    ROLE: ("f:rules",),
    ROLE_BINDING: ("f:roleRef", "f:subjects"),
}
_TEMPLATE: Path = ("f:spec", "f:template")
#: Set to have pods replaced: by `kubectl rollout restart`, and by tools that do so when a Secret
#: changes. That is not ours to refuse.
_FREE: Path = (*_TEMPLATE, "f:metadata", "f:annotations")


@dataclass(frozen=True, slots=True)
class Edit:
    """A field of ours that somebody else has set."""

    field: str
    """`spec.template.spec.containers[shell]`."""
    manager: str
    """As the API server knows it: `kubectl-edit`, `argocd-controller`."""
    at: datetime | None
    """When that manager last set one of its fields."""
    in_template: bool
    """Whether new pods have it."""


def find(kind: Kind, obj: Object) -> tuple[Edit, ...]:
    """None are found in an object that we have not applied yet."""
    roots = _OURS.get(kind, ())
    entries = obj["metadata"].get("managedFields") or []
    others = [entry for entry in entries if _is_foreign(entry)]
    applied = next(filter(_is_applied, entries), None)
    if not roots or not others or applied is None:
        return ()
    return tuple(edit for entry in others for edit in _edits(obj, entry, applied, roots))


def taken_over(kind: Kind, obj: Object) -> list[Object]:
    """The managed fields of an object with all edits in them as our own."""
    mine, others = [], []
    ours: Tree = {}
    for entry in obj["metadata"].get("managedFields") or []:
        if _is_applied(entry):
            mine.append(entry)
        elif _is_foreign(entry):
            taken, left = _split(_fields(entry), _OURS.get(kind, ()))
            ours = _joined(ours, taken)
            others += [{**entry, "fieldsV1": left}] if left else []
        else:
            others.append(entry)
    joined = [{**entry, "fieldsV1": _joined(_fields(entry), ours)} for entry in mine]
    return [*joined, *others]


def told(edits: Iterable[Edit]) -> str:
    """`spec.a, spec.b (set by kubectl-edit); spec.c (set by other)`."""
    by_manager: dict[str, set[str]] = {}
    for edit in edits:
        by_manager.setdefault(edit.manager, set()).add(edit.field)
    return "; ".join(
        f"{', '.join(sorted(fields))} (set by {manager})"
        for manager, fields in sorted(by_manager.items())
    )


def _edits(obj: Object, entry: Object, applied: Object, roots: Iterable[str]) -> Iterator[Edit]:
    theirs = {root: tree for root, tree in _fields(entry).items() if root in roots}
    for path in _beyond(theirs, _fields(applied)):
        # Ownership may outlive a field, where the API server itself took it out.
        if path[: len(_FREE)] != _FREE and _value(obj, path) is not None:
            yield Edit(
                field=_text(path),
                manager=entry.get("manager") or "somebody unnamed",
                at=parse_time(entry.get("time")),
                in_template=path[: len(_TEMPLATE)] == _TEMPLATE,
            )


def _is_applied(entry: Object) -> bool:
    return (
        entry.get("manager") == FIELD_MANAGER
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    )


def _is_foreign(entry: Object) -> bool:
    """Controllers write by the subresource `status`; who scales writes by `scale`, and we put the
    number of replicas right like any field of ours."""
    return entry.get("manager") != FIELD_MANAGER and not entry.get("subresource")


def _fields(entry: Object) -> Tree:
    fields: Tree = entry.get("fieldsV1") or {}
    return fields


def _beyond(theirs: Tree, ours: Tree, at: Path = ()) -> Iterator[Path]:
    """What the first owns and the second does not, each time the topmost step."""
    for step, below in theirs.items():
        if step == ".":
            continue
        if step not in ours:
            yield (*at, step)
        else:
            yield from _beyond(below, ours[step], (*at, step))


def _split(fields: Tree, roots: Iterable[str]) -> tuple[Tree, Tree]:
    """What is owned below the roots, and the rest."""
    taken = {root: tree for root, tree in fields.items() if root in roots}
    left = {root: tree for root, tree in fields.items() if root not in roots}
    free: Any = taken
    for step in _FREE:
        free = free.get(step) if isinstance(free, dict) else None
    if free is not None:
        taken = _without(taken, _FREE)
        left = _joined(left, _nested(_FREE, free))
    return taken, left


def _without(tree: Tree, path: Path) -> Tree:
    step, *rest = path
    others = {key: below for key, below in tree.items() if key != step}
    return {**others, step: _without(tree[step], tuple(rest))} if rest else others


def _nested(path: Path, tree: Tree) -> Tree:
    for step in reversed(path):
        tree = {step: tree}
    return tree


def _joined(one: Tree, other: Tree) -> Tree:
    return {
        step: _joined(one.get(step, {}), other.get(step, {}))
        for step in dict.fromkeys((*one, *other))
    }


def _value(obj: Any, path: Path) -> Any:
    """What stands there; None for nothing."""
    for step in path:
        obj = _below(obj, step)
    return obj


def _below(parent: Any, step: str) -> Any:
    how, _, text = step.partition(":")
    if how == "f":
        return parent.get(text) if isinstance(parent, dict) else None
    if not isinstance(parent, list):
        return None
    key = json.loads(text)
    if how == "k":
        return next((item for item in parent if _has(item, key)), None)
    if how == "v":
        return key if key in parent else None
    return parent[key] if how == "i" and key < len(parent) else None


def _has(item: Any, keys: Mapping[str, Any]) -> bool:
    return isinstance(item, dict) and all(item.get(name) == keys[name] for name in keys)


def _text(path: Path) -> str:
    text = ""
    for step in path:
        how, _, name = step.partition(":")
        if how == "f":
            text += f".{name}" if text else name
        else:
            key = json.loads(name)
            words = key.values() if isinstance(key, dict) else (key,)
            text += f"[{'/'.join(map(str, words))}]"
    return text
