"""The startup taint: nodes that start with it lose it when they are ready to serve.

Until then no engine lands there, so that none waits for images on a node that has just joined.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.diagnosis import mounts, problems
from warmpod.controller.nodes.actions import NodeActions
from warmpod.controller.nodes.fleet import Fleet
from warmpod.controller.nodes.pods import is_resident
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import Key, PodView
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.resources.names import NOT_READY_TAINT

logger = logging.getLogger(__name__)

#: Seconds between looks at the nodes that have the taint, and after one that failed.
PERIOD = 2.0
FAILED_PERIOD = 60.0
#: How long a node waits for a pod that nobody creates, or whose volumes do not come.
PATIENCE = timedelta(minutes=3)


def holds_up(pods: Iterable[PodView], refused: Callable[[PodView], bool], now: datetime) -> bool:
    """Whether the node is not ready for a model: `pods`, its prefetch pods there, are on their way.

    A model that cannot be prefetched there without a person does not hold the node up for the
    others.
    """
    found = list(pods)
    if any(is_resident(pod, None) for pod in found):
        return False
    return not any(refused(pod) or _needs_person(pod, now) for pod in found)


def _needs_person(pod: PodView, now: datetime) -> bool:
    hanging_from = mounts.hanging_from(pod)
    if hanging_from is not None and now - hanging_from >= PATIENCE:
        return True
    return any(problem.needs_person(now) for problem in problems.of_prefetch_pod(pod, now))


class StartupTaints:
    def __init__(
        self,
        cache: Cache,
        fleet: Fleet,
        actions: NodeActions,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cache = cache
        self._fleet = fleet
        self._actions = actions
        self._now = now
        self._missing: dict[tuple[Key, str], datetime] = {}
        """Since when a WarmModel has had no pod for a node that has the taint, by node's uid."""

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            try:
                await self.look()
            except (ApiError, Unreachable, RetryLater) as error:
                logger.warning("startup taint: %s; next look in %.0f s", error, FAILED_PERIOD)
                await asyncio.sleep(FAILED_PERIOD)

    async def look(self) -> None:
        """Raises ApiError, Unreachable, RetryLater."""
        nodes, models = self._fleet.hosts.with_taint(NOT_READY_TAINT), self._models()
        if not all(map(self._fleet.has_seen, models)):
            return  # nobody knows yet where the others could land
        self._find_missing(models, nodes)
        for node in nodes:
            if not any(self._waits_for(model, node) for model in models):
                await self._actions.remove_taint(node, NOT_READY_TAINT)

    def _find_missing(self, models: Iterable[Key], nodes: Iterable[NodeView]) -> None:
        pairs = [(key, node) for node in nodes for key in models]
        missing = [(k, n.meta.uid) for k, n in pairs if not self._fleet.pods_on(n.meta.name, k)]
        self._missing = {pair: self._missing.get(pair, self._now()) for pair in missing}

    def _models(self) -> list[Key]:
        return [model.meta.key for model in self._cache.models() if not model.meta.deleting]

    def _waits_for(self, key: Key, node: NodeView) -> bool:
        if not self._fleet.hosts.could_host(key, node.meta.name):
            return False
        since = self._missing.get((key, node.meta.uid))
        if since is not None and self._now() - since >= PATIENCE:
            return False  # a quota or a policy keeps the pods of that one away
        pods = self._fleet.pods_on(node.meta.name, key)
        return holds_up(pods, lambda pod: pod.meta.uid in self._fleet.queue.refused, self._now())
