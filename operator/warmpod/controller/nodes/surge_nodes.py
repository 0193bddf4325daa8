"""Asks what the pods of nodes have reserved, pods of others included, which no watch tells.

Only while a rollout is under way, node by node, and only until there is room enough.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Set

from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.apiserver.kube import ApiError, Kube, Object
from warmpod.controller.nodes import surge
from warmpod.controller.nodes.surge import NodeUse, Places, PodUse, Requests, Room
from warmpod.controller.objects.meta import Key
from warmpod.controller.objects.node_view import NodeView
from warmpod.resources.names import COMPONENT_LABEL, MODEL_LABEL

logger = logging.getLogger(__name__)

#: Seconds for which an answer about a node is believed.
KNOWN_SECONDS = 10.0
#: Seconds until the right to list pods is tried again.
FORBIDDEN_SECONDS = 300.0
#: Nodes that are looked at for one rollout; a cluster can have thousands.
MOST_NODES = 200


class SurgeNodes:
    """Shared by all WarmModels."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._known: dict[str, tuple[float, tuple[PodUse, ...]]] = {}
        self._forbidden_until = 0.0

    async def room(
        self, model: Key, wanted: Requests, needed: int, nodes: Iterable[NodeView], own: Set[str]
    ) -> Room | None:
        """Whether that many pods have places. `own`: nodes that have pods of the model, which come
        first. None where pods of all namespaces may not be listed. Raises ApiError, Unreachable."""
        eligible = sorted(nodes, key=lambda node: _order(node, own))
        found: list[Places] = []
        for node in eligible[:MOST_NODES]:
            pods = await self._pods(node.meta.name)
            if pods is None:
                return None
            use = NodeUse(node.meta.name, node.allocatable, pods)
            found.append(surge.places(model, wanted, use))
            if sum(each.count for each in found) >= needed:
                break
        return surge.judge(wanted, needed, found, len(eligible))

    async def _pods(self, node: str) -> tuple[PodUse, ...] | None:
        now = self._clock()
        known = self._known.get(node)
        if known is not None and now < known[0]:
            return known[1]
        if now < self._forbidden_until:
            return None
        try:
            pods = await self._list(node)
        except ApiError as error:
            if error.status != 403:
                raise
            logger.warning("room for a rollout is not known: %s", error.message)
            self._forbidden_until = now + FORBIDDEN_SECONDS
            return None
        self._known = {name: kept for name, kept in self._known.items() if now < kept[0]}
        self._known[node] = (now + KNOWN_SECONDS, pods)
        return pods

    async def _list(self, node: str) -> tuple[PodUse, ...]:
        """Only what counts is kept of a page."""
        fields = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
        found: list[PodUse] = []
        async for page, _ in self._kube.list_pages(POD, None, fields=fields):
            found += map(_use, page)
        return tuple(found)


def _order(node: NodeView, own: Set[str]) -> tuple[bool, int, str]:
    return (node.meta.name not in own, -sum(node.devices.values()), node.meta.name)


def _use(pod: Object) -> PodUse:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    engine = labels.get(COMPONENT_LABEL) == "engine" and MODEL_LABEL in labels
    return PodUse(
        model=(metadata.get("namespace", ""), labels[MODEL_LABEL]) if engine else None,
        requests=surge.requests_of(pod.get("spec") or {}),
    )
