"""Whether a node has room for one more pod: the scheduler's own arithmetic of requests.

https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/ and, for init containers,
sidecars and overhead, https://kubernetes.io/docs/concepts/workloads/pods/init-containers/. What it
does not know (affinity between pods, spread, ports, volumes) only the scheduler can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from warmpod.controller.meta import Key
from warmpod.controller.node_view import amount
from warmpod.quantity import human

Object = Mapping[str, Any]
#: By resource; processors in thousandths. `pods` counts the pod itself.
Requests = Mapping[str, int]

PODS = "pods"
_IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod that was bound to a node has reserved there."""

    model: Key | None
    """The WarmModel whose engine it is; None for anything else."""
    leaving: bool
    """Whether it is being deleted."""
    requests: Requests


@dataclass(frozen=True)
class NodeUse:
    name: str
    allocatable: Requests
    pods: tuple[PodUse, ...]


@dataclass(frozen=True)
class Room:
    """What was found, at a moment, for one more pod of a template."""

    fits: bool
    why: str
    """With the node and the numbers, as a part of a sentence."""


def find(model: Key, wanted: Requests, nodes: Iterable[NodeUse], eligible: int) -> Room:
    """`nodes`: those that were looked at, of all that are eligible.

    What the model's own leaving pods hold counts as free: it will be in a moment, and the scheduler
    waits for it.
    """
    looked_at = tuple(nodes)
    lacks = {node.name: _lacks(model, wanted, node) for node in looked_at}
    for name, lacking in lacks.items():
        if not lacking:
            return Room(True, f"node {name} has room for one more pod ({told(wanted)})")
    if not looked_at:
        return Room(False, f"there is no node for one more pod ({told(wanted)})")
    nearest = min(lacks, key=lambda name: (len(lacks[name]), name))
    others = f" of {eligible}" if eligible > len(looked_at) else ""
    return Room(
        False,
        f"none of {len(looked_at)}{others} nodes has room for one more pod ({told(wanted)}); "
        f"node {nearest} has free: {', '.join(lacks[nearest])}",
    )


def _lacks(model: Key, wanted: Requests, node: NodeUse) -> tuple[str, ...]:
    """What is too little there, as `0 of 8 nvidia.com/gpu`."""
    used: Counter[str] = Counter()
    for pod in node.pods:
        if not (pod.leaving and pod.model == model):
            used.update(pod.requests)
    return tuple(
        f"{_shown(name, max(0, _of(node, name) - used[name]))} of {_shown(name, _of(node, name))} "
        f"{name}"
        for name, number in sorted(wanted.items())
        if number > 0 and used[name] + number > _of(node, name)
    )


def _of(node: NodeUse, name: str) -> int:
    return node.allocatable.get(name, 0)


def told(requests: Requests) -> str:
    """`1 nvidia.com/gpu, 500m cpu, 4.0Gi memory`."""
    asked = sorted((k, v) for k, v in requests.items() if v > 0 and k != PODS)
    return ", ".join(f"{_shown(name, number)} {name}" for name, number in asked) or "no requests"


def _shown(name: str, number: int) -> str:
    if name == "cpu":
        return f"{number}m" if number % 1000 else str(number // 1000)
    return human(number) if name.startswith(_IN_BYTES) else str(number)


def requests_of(spec: Object) -> Requests:
    """What the scheduler reckons with for a pod: the larger of what its containers need together
    and what any step of its init containers needs; sidecars count from their own step on. Raises
    nothing: what is malformed counts as nothing, for the API server refuses it."""
    running: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in _objects(spec.get("initContainers")):
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            running.update(asked)
            peak |= running
        else:
            peak |= running + asked
    for container in _objects(spec.get("containers")):
        running.update(_asked(container))
    whole = Counter(dict(peak | running))
    # Requests of the pod as a whole, where it has them, stand for those of its containers.
    whole.update(dict.fromkeys(own := _asked(spec), 0))
    whole = Counter({name: own.get(name, number) for name, number in whole.items()})
    whole.update(_amounts(_object(spec.get("overhead"))))
    whole[PODS] = 1
    return dict(whole)


def _asked(holder: Object) -> Counter[str]:
    """A limit without a request is the request as well."""
    resources = _object(holder.get("resources"))
    return Counter(
        _amounts({**_object(resources.get("limits")), **_object(resources.get("requests"))})
    )


def _amounts(quantities: Object) -> dict[str, int]:
    found = {}
    for name, quantity in quantities.items():
        try:
            found[str(name)] = amount(str(name), str(quantity))
        except ValueError:
            continue
    return found


def _object(value: object) -> Object:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[Object]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
