"""Looks up what the preflight needs, and makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.nodes import images, preflight
from warmpod.controller.nodes.disks import Kubelet, kubelet_of
from warmpod.controller.nodes.preflight import Disk, Layers, Refusal
from warmpod.controller.nodes.sizes import Question
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import Key, PodView, owner_key

_ARCHITECTURE = "kubernetes.io/arch"


class SizeLookup(Protocol):
    def lookup(self, question: Question, key: Key) -> object | None: ...


class DiskLookup(Protocol):
    def lookup(self, question: Kubelet, key: Key) -> object | None: ...


class Checks:
    def __init__(self, sizes: SizeLookup, disks: DiskLookup) -> None:
        """Both tell nothing (None) while they ask; what is no size and no disk is not known."""
        self._sizes = sizes
        self._disks = disks

    def memory(self, pod: PodView, node: NodeView) -> Refusal | None:
        request = pod.pull.memory if pod.pull else 0
        return preflight.of_memory(node.meta.name, request, node.memory)

    def disk(self, pod: PodView, node: NodeView) -> bool | Refusal | None:
        """True also where nobody can tell; None while it is being asked."""
        key = owner_key(POD, pod.meta)
        lacking = images.missing(pod.pull.images if pod.pull else (), node)
        if key is None or not lacking or not node.address:
            return True
        architecture = _architecture(node.meta.labels)
        layers = [self._sizes.lookup((image, architecture), key) for image in lacking]
        disk = self._disks.lookup(kubelet_of(node), key)
        if disk is None or None in layers:
            return None
        if not isinstance(disk, Disk):
            return True
        known = [answer for answer in layers if isinstance(answer, Layers)]
        return preflight.of_disk(node.meta.name, known, disk) or True


def _architecture(labels: Mapping[str, str]) -> str:
    return labels.get(_ARCHITECTURE, "amd64")
