"""Images that somebody took from a node while a prefetch pod was there to hold them.

Known only to the operator that saw the node's list change. One that starts later sees what is
listed and not what was.
"""

from __future__ import annotations

from collections.abc import Iterable

from warmpod.controller.nodes import images
from warmpod.controller.nodes.pods import holds_images
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import PodView


class Losses:
    def __init__(self) -> None:
        self._lost: dict[str, tuple[str, ...]] = {}
        """Images by the pod's uid."""

    def compare(self, before: NodeView, after: NodeView, pods: Iterable[PodView]) -> list[PodView]:
        """Two lists of the same node; `pods`: the prefetch pods there. Returns those that lost
        images just now."""
        gone, newly = images.removed(before, after), []
        for pod in pods:
            known = self.of(pod.meta.uid)
            lost = set(images.missing(known, after))
            if pod.pull is not None and holds_images(pod):
                lost |= {image for image in pod.pull.images if images.listed_name(image) in gone}
            if lost and not known:
                newly.append(pod)
            if lost:
                self._lost[pod.meta.uid] = tuple(sorted(lost))
            else:
                self.forget(pod.meta.uid)
        return newly

    def of(self, uid: str) -> tuple[str, ...]:
        return self._lost.get(uid, ())

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._lost.pop(uid, None)
