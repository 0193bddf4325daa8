"""Writes the roles of pods: the one thing between a wish for more pods and their first request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from warmpod.controller.cache import Cache
from warmpod.controller.kinds import POD
from warmpod.controller.kube import ApiError, Kube
from warmpod.controller.metrics import Metrics
from warmpod.controller.pool.decision import RoleChange
from warmpod.controller.views import Object
from warmpod.controller.workqueue import RetryLater
from warmpod.resources.names import ROLE_LABEL

logger = logging.getLogger(__name__)


class Roles:
    def __init__(self, kube: Kube, cache: Cache, metrics: Metrics) -> None:
        self._kube = kube
        self._cache = cache
        self._metrics = metrics

    async def apply(self, changes: Sequence[RoleChange]) -> tuple[RoleChange, ...]:
        """Returns those that were carried out; a pod that is not what it was is left as it is, and
        the cache knows what it is now.

        All promotions go out at once and before the demotions: endpoints follow pods in the order
        of their changes, so there is no moment with fewer pods than before. Raises RetryLater,
        Unreachable, and ApiError for what is the server's trouble.
        """
        promotions = [change for change in changes if change.promotes]
        demotions = [change for change in changes if not change.promotes]
        return (*await self._all(promotions), *await self._all(demotions))

    async def _all(self, changes: Sequence[RoleChange]) -> list[RoleChange]:
        tasks = (self._change(change) for change in changes)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [change for change, done in zip(changes, results, strict=True) if done]

    async def _change(self, change: RoleChange) -> bool:
        meta = change.pod.meta
        self._metrics.writes.labels(POD.kind).inc()
        try:
            answer = await self._kube.merge(POD, *meta.key, _body(change))
        except ApiError as error:
            if error.retry_after is not None:
                raise RetryLater(error.retry_after, str(error)) from error
            if error.status not in (404, 409):
                raise
            await self._look(change)
            return False
        self._cache.upsert(POD, answer)
        logger.info("pod %s/%s: %s", *meta.key, change.role)
        return True

    async def _look(self, change: RoleChange) -> None:
        """It changed since it was decided about, or is gone."""
        meta = change.pod.meta
        found = await self._kube.get(POD, *meta.key)
        if found is None:
            self._cache.drop(POD, meta)
        else:
            self._cache.upsert(POD, found)


def _body(change: RoleChange) -> Object:
    """With what makes the write fail if the pod was changed or replaced since."""
    meta = change.pod.meta
    return {
        "metadata": {
            "uid": meta.uid,
            "resourceVersion": str(meta.resource_version),
            "labels": {ROLE_LABEL: change.role},
            "annotations": dict(change.annotations),
        }
    }
