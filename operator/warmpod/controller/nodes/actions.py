"""Carries out what was decided about prefetch pods and nodes.

A pod that is gone or was replaced meanwhile is left alone: its uid is part of every request.
"""

from __future__ import annotations

import logging

from warmpod.controller.apiserver.kinds import NODE, POD
from warmpod.controller.apiserver.kube import ApiError, Kube
from warmpod.controller.nodes import pods
from warmpod.controller.nodes.pods import PodChanges
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import Object, PodView
from warmpod.controller.runtime.workqueue import RetryLater
from warmpod.controller.telling.metrics import Metrics
from warmpod.resources.names import PREFETCH_GATE, RESIDENT_LABEL

logger = logging.getLogger(__name__)

#: Of the answers that say that the object is not what it was: an event tells what it is now.
_MOVED_ON = (404, 409, 422)


class NodeActions:
    def __init__(self, kube: Kube, cache: Cache, metrics: Metrics) -> None:
        self._kube = kube
        self._cache = cache
        self._metrics = metrics

    async def apply(self, changes: PodChanges) -> None:
        """Raises RetryLater, Unreachable, and ApiError for what is the server's trouble."""
        for pod in changes.release:
            await self._release(pod)
        for pod in changes.relabel:
            await self._relabel(pod)
        for pod in changes.evict:
            await self._evict(pod)

    async def _release(self, pod: PodView) -> None:
        gates = [{"name": PREFETCH_GATE, "$patch": "delete"}]
        body = {"metadata": {"uid": pod.meta.uid}, "spec": {"schedulingGates": gates}}
        await self._change(pod, body)
        logger.info("pod %s/%s may go to node %s", *pod.meta.key, pod.meant_for)

    async def _relabel(self, pod: PodView) -> None:
        labels = {RESIDENT_LABEL: pods.label(pod)}
        await self._change(pod, {"metadata": {"uid": pod.meta.uid, "labels": labels}})

    async def _change(self, pod: PodView, body: Object) -> None:
        self._metrics.writes.labels(POD.kind).inc()
        try:
            answer = await self._kube.merge_lists(POD, *pod.meta.key, body)
        except ApiError as error:
            _tolerate(error)
        else:
            self._cache.upsert(POD, answer)

    async def _evict(self, pod: PodView) -> None:
        if pod.pull is None:
            raise AssertionError(f"pod {pod.meta.name} is no prefetch pod")
        self._metrics.writes.labels(POD.kind).inc()
        await self._kube.delete(POD, *pod.meta.key, uid=pod.meta.uid)
        found = await self._kube.get(POD, *pod.meta.key)  # it takes a moment to stop
        if found is None:
            self._cache.drop(POD, pod.meta)
        else:
            self._cache.upsert(POD, found)
        logger.info("pod %s/%s is replaced", *pod.meta.key)

    async def remove_taint(self, node: NodeView, taint: str) -> None:
        """By the places of the taint in the list, each proven by its key: other taints may be put
        there or taken away at any time."""
        steps: list[Object] = []
        for index, found in reversed(list(enumerate(node.taints))):
            if found.key == taint:
                place = f"/spec/taints/{index}"
                steps.append({"op": "test", "path": f"{place}/key", "value": taint})
                steps.append({"op": "remove", "path": place})
        self._metrics.writes.labels(NODE.kind).inc()
        try:
            answer = await self._kube.patch(NODE, "", node.meta.name, steps)
        except ApiError as error:
            _tolerate(error)
        else:
            self._cache.upsert(NODE, answer)
            logger.info("node %s: taint %s removed", node.meta.name, taint)


def _tolerate(error: ApiError) -> None:
    if error.status in _MOVED_ON:
        return
    if error.retry_after is not None:
        raise RetryLater(error.retry_after, str(error)) from error
    raise error
