"""What the operator keeps of a node. A cluster has thousands, and each is written all the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warmpod.controller.objects.meta import Meta, Object, intern
from warmpod.quantity import to_bytes, to_thousandths
from warmpod.resources.placement import is_extended

#: Where a kubelet listens that does not say where.
KUBELET_PORT = 10250


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node without what changes all the time; clusters have thousands."""

    meta: Meta
    unschedulable: bool
    taints: tuple[Taint, ...]
    """In the order of the node's spec."""
    allocatable: Mapping[str, int]
    """What pods may request in all, by resource; processors in thousandths."""
    memory: int
    """Bytes of memory of that."""
    devices: Mapping[str, int]
    """Extended resources that pods may request in all."""
    images: tuple[str, ...]
    """Names of the images that the kubelet lists."""
    images_listed: int
    """Images that the kubelet lists; each can have several names."""
    address: str
    """Internal IP; empty for none."""
    kubelet_port: int


def amount(resource: str, quantity: int | str) -> int:
    """In the unit in which that resource is reckoned here. ValueError if it is not a quantity."""
    return to_thousandths(quantity) if resource == "cpu" else to_bytes(quantity)


def node_view(meta: Meta, obj: Object) -> NodeView:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    allocatable = status.get("allocatable") or {}
    images = status.get("images") or []
    daemon = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or []}
    return NodeView(
        meta=meta,
        unschedulable=bool(spec.get("unschedulable")),
        taints=tuple(
            Taint(intern(t["key"]), intern(t.get("value") or ""), intern(t["effect"]))
            for t in spec.get("taints") or []
        ),
        allocatable={intern(k): amount(k, v) for k, v in allocatable.items()},
        memory=to_bytes(allocatable.get("memory", 0)),
        devices={intern(k): to_bytes(v) for k, v in allocatable.items() if is_extended(k)},
        # A tuple of shared names takes a twentieth of the memory of a set.
        images=tuple(sorted({intern(n) for image in images for n in image.get("names") or []})),
        images_listed=len(images),
        address=addresses.get("InternalIP") or "",
        kubelet_port=int(daemon.get("Port") or KUBELET_PORT),
    )
