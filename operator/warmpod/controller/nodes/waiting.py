"""How many nodes wait for their turn to pull, in words."""

from __future__ import annotations

from dataclasses import dataclass

from warmpod.controller.nodes.pods import is_pulling
from warmpod.controller.nodes.seen import NodesSeen
from warmpod.controller.objects.views import PodView


@dataclass(frozen=True)
class Queue:
    """Nodes on which prefetch pods wait for their turn to pull."""

    nodes: int
    registries: tuple[str, ...]
    limit: int
    moves: bool
    """Whether other nodes pull for the same WarmModel."""

    def __str__(self) -> str:
        count = "1 node waits" if self.nodes == 1 else f"{self.nodes} nodes wait"
        where = ", ".join(self.registries)
        return f"{count} for a turn: at most {self.limit} pull at a time from {where}"


def queue(prefetch: tuple[PodView, ...], nodes: NodesSeen | None) -> Queue | None:
    """`prefetch`: the prefetch pods that count."""
    waiting = [pod.meta.uid for pod in prefetch if nodes and pod.meta.uid in nodes.waiting]
    if nodes is None or not waiting:
        return None
    registries = frozenset[str]().union(*(nodes.waiting[uid] for uid in waiting))
    moves = any(map(is_pulling, prefetch))
    return Queue(len(waiting), tuple(sorted(registries)), nodes.limit, moves)
