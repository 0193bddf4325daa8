"""The nodes, and which of them could host the engines of which WarmModel.

Remembered by placement and kept up to date node by node: a cluster has thousands of nodes, and each
look at a WarmModel needs all that are eligible.
"""

from __future__ import annotations

from collections import Counter

from warmpod.controller.nodes import images
from warmpod.controller.nodes.eligibility import undisturbed, why_not
from warmpod.controller.nodes.placement import Placement
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import Key


class Hosts:
    def __init__(self) -> None:
        self._nodes: dict[str, NodeView] = {}
        self._placements: dict[Key, Placement] = {}
        self._eligible: dict[Placement, set[str]] = {}

    def get(self, name: str) -> NodeView | None:
        return self._nodes.get(name)

    def put(self, node: NodeView) -> None:
        before = self._nodes.get(node.meta.name)
        self._nodes[node.meta.name] = node
        if before is not None and not images.differ_elsewhere(before, node):
            return
        for placement, names in self._eligible.items():
            if why_not(placement, node) is None:
                names.add(node.meta.name)
            else:
                names.discard(node.meta.name)

    def drop(self, name: str) -> None:
        self._nodes.pop(name, None)
        for names in self._eligible.values():
            names.discard(name)

    def place(self, key: Key, placement: Placement) -> bool:
        """Where the engines of a WarmModel may run; whether that is news."""
        if self._placements.get(key) == placement:
            return False
        self.forget(key)
        self._placements[key] = placement
        if placement not in self._eligible:
            self._eligible[placement] = {
                name for name, node in self._nodes.items() if why_not(placement, node) is None
            }
        return True

    def forget(self, key: Key) -> None:
        placement = self._placements.pop(key, None)
        if placement is not None and placement not in self._placements.values():
            del self._eligible[placement]

    def eligible(self, key: Key) -> frozenset[str]:
        placement = self._placements.get(key)
        return frozenset() if placement is None else frozenset(self._eligible[placement])

    def knows(self, key: Key) -> bool:
        """Whether the WarmModel was placed."""
        return key in self._placements

    def could_host(self, key: Key, name: str) -> bool:
        placement = self._placements.get(key)
        return placement is not None and name in self._eligible[placement]

    def unfit(self, key: Key) -> Counter[str]:
        """Why nodes could not, with how many."""
        placement = self._placements.get(key)
        if placement is None:
            return Counter()
        reasons = (why_not(placement, node) for node in self._nodes.values())
        return Counter(reason for reason in reasons if reason is not None)

    def may_return(self, key: Key) -> bool:
        """Whether a node could host it but for what somebody or something put there for a while."""
        placement = self._placements.get(key)
        return placement is not None and any(
            why_not(placement, undisturbed(node)) is None for node in self._nodes.values()
        )

    def with_taint(self, key: str) -> list[NodeView]:
        return [n for n in self._nodes.values() if any(taint.key == key for taint in n.taints)]
