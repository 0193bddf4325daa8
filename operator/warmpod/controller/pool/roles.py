"""Writes the roles of pods: the one thing between a wish for more pods and their first request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from warmpod import reasons
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.apiserver.kube import ApiError, Kube
from warmpod.controller.diagnosis.refused import Failure
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.views import Object
from warmpod.controller.pool.decision import RoleChange
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.controller.telling.metrics import Metrics
from warmpod.resources.names import ROLE_LABEL

logger = logging.getLogger(__name__)

#: The pod is not what it was, or is gone.
_MOVED_ON = (404, 409)
#: Somebody does not let us: an admission webhook, or missing rights.
_REFUSED = (400, 403, 422)


@dataclass(frozen=True)
class Assigned:
    done: tuple[RoleChange, ...] = ()
    failures: tuple[Failure, ...] = ()


class Roles:
    def __init__(self, kube: Kube, cache: Cache, metrics: Metrics) -> None:
        self._kube = kube
        self._cache = cache
        self._metrics = metrics

    async def apply(self, changes: Sequence[RoleChange]) -> Assigned:
        """A pod that is not what it was is left as it is, and the cache knows what it is now.

        All promotions go out at once and before the demotions: endpoints follow pods in the order
        of their changes, so there is no moment with fewer pods than before. Raises RetryLater,
        Unreachable, and ApiError for what is the server's trouble.
        """
        promotions = [change for change in changes if change.promotes]
        demotions = [change for change in changes if not change.promotes]
        results = [*await self._all(promotions), *await self._all(demotions)]
        return Assigned(
            done=tuple(result for result in results if isinstance(result, RoleChange)),
            failures=tuple(result for result in results if isinstance(result, Failure)),
        )

    async def _all(self, changes: Sequence[RoleChange]) -> list[RoleChange | Failure | None]:
        tasks = (self._change(change) for change in changes)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        found: list[RoleChange | Failure | None] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            found.append(result)
        return found

    async def _change(self, change: RoleChange) -> RoleChange | Failure | None:
        meta = change.pod.meta
        self._metrics.writes.labels(POD.kind).inc()
        try:
            answer = await self._kube.merge(POD, *meta.key, _body(change))
        except ApiError as error:
            return await self._judge(change, error)
        self._cache.upsert(POD, answer)
        logger.info("pod %s/%s: %s", *meta.key, change.role)
        return change

    async def _judge(self, change: RoleChange, error: ApiError) -> Failure | None:
        meta = change.pod.meta
        if error.retry_after is not None:
            raise RetryLater(error.retry_after, str(error)) from error
        if error.status in _REFUSED:
            logger.warning("Pod %s/%s: %s", *meta.key, error)
            where = f"Pod {meta.namespace}/{meta.name}"
            return Failure(reasons.CHILD_REJECTED, where, error.message)
        if error.status not in _MOVED_ON:
            raise error
        found = await self._kube.get(POD, *meta.key)
        if found is None:
            self._cache.drop(POD, meta)
        else:
            self._cache.upsert(POD, found)
        return None


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
