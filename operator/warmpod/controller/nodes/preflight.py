"""Whether a node can take what is to be pulled, before it is pulled.

Only what cannot succeed is refused; what is not known is not held against a node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warmpod import reasons
from warmpod.quantity import human
from warmpod.reasons import Reason

#: Percent of the disk at which a kubelet starts to remove images, if it does not say otherwise: the
#: default of its imageGCHighThresholdPercent.
GC_PERCENT = 85
#: Image by image: `crictl rmi --prune` takes those of image volumes too, while pods use them.
REMOVE_IMAGES = "remove images that no WarmModel uses (crictl rmi IMAGE) and what else fills it"
#: What unpacking makes of a compressed layer, as a multiple. Weights barely compress, code does by
#: two to three.
UNPACKED = 2


@dataclass(frozen=True, slots=True)
class Layers:
    """Bytes of an image's layers as the registry holds them."""

    plain: int
    compressed: int

    @property
    def unpacked(self) -> int:
        return self.plain + UNPACKED * self.compressed


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system on which a node's runtime keeps images, in bytes."""

    available: int
    capacity: int
    gc_percent: int = GC_PERCENT

    @property
    def usable(self) -> int:
        """What can be added before the kubelet starts to remove images."""
        return max(0, self.available - self.capacity * (100 - self.gc_percent) // 100)

    def __str__(self) -> str:
        free = f"{human(self.available)} free of {human(self.capacity)}"
        if self.gc_percent >= 100:
            return free
        return f"{free}, less the {100 - self.gc_percent} % below which the kubelet removes images"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is pulled on a node."""

    node: str
    reason: Reason
    message: str


def of_memory(node: str, request: int, allocatable: int) -> Refusal | None:
    """`request`: of the prefetch pod, which pays for the weights that it holds."""
    if request <= allocatable:
        return None
    words = (
        f"node {node}: the prefetch pod requests {human(request)} of memory, and the node has "
        f"{human(allocatable)} for pods"
    )
    remedy = "lower spec.weights.size, or choose larger nodes in spec.pod.nodeSelector"
    return Refusal(node, reasons.MEMORY_TOO_SMALL, f"{words} — {remedy}")


def of_disk(node: str, layers: Iterable[Layers], disk: Disk) -> Refusal | None:
    """`layers`: of the images that are not on the node yet."""
    needed = sum(image.unpacked for image in layers)
    if needed <= disk.usable:
        return None
    words = (
        f"node {node}: the images that are missing need {human(needed)} unpacked, and the node's "
        f"image disk can take {human(disk.usable)} ({disk})"
    )
    remedy = f"{REMOVE_IMAGES}, or choose nodes with larger disks in spec.pod.nodeSelector"
    return Refusal(node, reasons.DISK_FULL, f"{words} — {remedy}")
