"""What a prefetch pod will pull, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from warmpod.controller.objects.meta import Object, intern
from warmpod.quantity import to_bytes
from warmpod.resources.names import PREFETCH_GATE


@dataclass(frozen=True, slots=True)
class PullView:
    """Of a prefetch pod's spec, what decides when it may start."""

    gated: bool
    """It waits for the operator, which has not let it go to its node yet."""
    images: tuple[str, ...]
    """References as written, each once: of containers and image volumes."""
    memory: int
    """Bytes that its containers request."""


def pull_view(spec: Object) -> PullView:
    gates = {gate.get("name") for gate in spec.get("schedulingGates") or []}
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    images = [container.get("image") for container in containers]
    images += [(volume.get("image") or {}).get("reference") for volume in spec.get("volumes") or []]
    requests = [((c.get("resources") or {}).get("requests") or {}) for c in containers]
    return PullView(
        gated=PREFETCH_GATE in gates,
        images=tuple(sorted({intern(image) for image in images if image})),
        memory=sum(to_bytes(request.get("memory", 0)) for request in requests),
    )
