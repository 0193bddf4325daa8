"""Whether a node has room for one more pod: the scheduler's own arithmetic of requests.

https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/ and, for init containers,
sidecars and overhead, https://kubernetes.io/docs/concepts/workloads/pods/init-containers/. What it
does not know (affinity between pods, spread, ports, volumes) only the scheduler can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warmpod.controller.objects.meta import Key
from warmpod.controller.objects.node_view import amount
from warmpod.quantity import human

Object = Mapping[str, Any]
#: By resource; processors in thousandths. `pods` counts the pod itself.
Requests = Mapping[str, int]

PODS = "pods"
#: Nodes that a message names.
NAMED = 3
_IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod that was bound to a node has reserved there."""

    model: Key | None
    """The WarmModel whose engine it is; None for anything else."""
    requests: Requests


@dataclass(frozen=True)
class NodeUse:
    name: str
    allocatable: Requests
    pods: tuple[PodUse, ...]


@dataclass(frozen=True)
class Room:
    """What was found for one pod more than is asked for."""

    fits: bool
    places: int
    """For pods of the template, if none of the model were there; more are not counted than are
    needed."""
    why: str
    """With the numbers, as a part of a sentence."""


@dataclass(frozen=True)
class Places:
    """How many pods of a template a node could have if none of the model were there: so it does
    not matter how far a rollout is, nor which of its pods were there when the nodes were asked."""

    node: str
    count: int
    shortest: str
    """What there is least of, as `nvidia.com/gpu (1 of 8 not taken by others)`."""


def places(model: Key, wanted: Requests, node: NodeUse) -> Places:
    used: Counter[str] = Counter()
    for pod in node.pods:
        if pod.model != model:
            used.update(pod.requests)
    free = {name: max(0, _of(node, name) - used[name]) for name, n in wanted.items() if n > 0}
    counts = {name: number // wanted[name] for name, number in free.items()}
    name = min(counts, key=lambda name: (counts[name], name == PODS, name))
    of = f"{_shown(name, free[name])} of {_shown(name, _of(node, name))}"
    return Places(node.name, counts[name], f"{name} ({of} not taken by others)")


def judge(wanted: Requests, needed: int, found: Sequence[Places], eligible: int) -> Room:
    """`needed`: pods that are asked for, and one more. `found`: of the nodes that were looked at,
    of all that are `eligible`."""
    count = sum(each.count for each in found)
    looked_at = str(len(found)) + (f" of {eligible}" if eligible > len(found) else "")
    sums = (
        f"one pod more than asked for makes {needed} ({told(wanted)} each), and there are places "
        f"for {count} on {looked_at} node{'' if looked_at == '1' else 's'}"
    )
    if count >= needed or not found:
        return Room(count >= needed, count, sums)
    short = ", ".join(f"{each.node} is short of {each.shortest}" for each in found[:NAMED])
    return Room(False, count, f"{sums}: {short}")


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
    # Requests of the pod as a whole, where it has them, stand for those of its containers.
    whole = Counter({**(peak | running), **_asked(spec)})
    whole.update(_amounts(_object(spec.get("overhead"))))
    return {**whole, PODS: 1}


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
