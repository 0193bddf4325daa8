"""Where an engine may run, read from the pod template of its revision.

The template's scheduling fields are the user's, passed on untouched, so they may be of any shape.
What is malformed is left out here: the API server refuses the object and names the field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from warmpod.quantity import to_bytes
from warmpod.resources.names import NOT_READY_TAINT
from warmpod.resources.placement import is_extended

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """All requirements of a term must hold; a term without any matches no node."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Hashable, so that what it decides about nodes can be remembered."""

    selector: tuple[tuple[str, str], ...]
    terms: tuple[Term, ...] | None
    """One of them must match; None when nothing is required."""
    tolerations: tuple[Toleration, ...]
    devices: tuple[tuple[str, int], ...]
    """Extended resources, as `("nvidia.com/gpu", 2)`."""


def of_template(template: Object) -> Placement:
    """Of an engine's pod template."""
    spec = _object(template.get("spec"))
    devices = tuple(sorted(_devices(spec).items()))
    return Placement(
        selector=tuple(
            sorted((str(k), str(v)) for k, v in _object(spec.get("nodeSelector")).items())
        ),
        terms=_terms(spec),
        tolerations=(*_tolerations(spec), *_granted(devices)),
        devices=devices,
    )


def _granted(devices: tuple[tuple[str, int], ...]) -> Iterator[Toleration]:
    """What the pod has beyond its own: nodes with devices are often tainted with the resource's
    name, and the admission plugin ExtendedResourceToleration opens them to pods that ask for it.
    Our own startup taint goes when the node is ready, so it makes no node unfit."""
    yield Toleration(NOT_READY_TAINT, "Exists", "", "")
    for name, _ in devices:
        yield Toleration(name, "Exists", "", "NoSchedule")


def _terms(spec: Object) -> tuple[Term, ...] | None:
    affinity = _object(_object(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return None
    return tuple(
        Term(
            labels=tuple(map(_requirement, _objects(term.get("matchExpressions")))),
            fields=tuple(map(_requirement, _objects(term.get("matchFields")))),
        )
        for term in _objects(_object(required).get("nodeSelectorTerms"))
    )


def _requirement(item: Object) -> Requirement:
    values = item.get("values")
    return Requirement(
        key=str(item.get("key", "")),
        operator=str(item.get("operator", "")),
        values=tuple(map(str, values)) if isinstance(values, list) else (),
    )


def _tolerations(spec: Object) -> Iterator[Toleration]:
    for item in _objects(spec.get("tolerations")):
        yield Toleration(
            key=str(item.get("key") or ""),
            operator=str(item.get("operator") or "Equal"),
            value=str(item.get("value") or ""),
            effect=str(item.get("effect") or ""),
        )


def _devices(spec: Object) -> Counter[str]:
    wanted: Counter[str] = Counter()
    for container in _objects(spec.get("containers")):
        resources = _object(container.get("resources"))
        # A request of an extended resource equals its limit.
        asked = {**_object(resources.get("requests")), **_object(resources.get("limits"))}
        for name, amount in asked.items():
            count = _count(amount)
            if count > 0 and is_extended(str(name)):
                wanted[str(name)] += count
    return wanted


def _count(amount: object) -> int:
    try:
        return to_bytes(str(amount))
    except ValueError:
        return 0


def _object(value: object) -> Object:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[Object]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
