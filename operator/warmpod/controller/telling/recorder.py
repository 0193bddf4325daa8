"""Kubernetes Events on a WarmModel.

The name of an Event is computed from what it says, so saying it again counts the same Event up
instead of making another one. Events are for people: losing one is logged and counted, and stops
nothing.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime
from typing import Any

from warmpod.controller.apiserver.kinds import EVENT, WARM_MODEL
from warmpod.controller.apiserver.kube import USER_AGENT, ApiError, Kube, Object, Unreachable
from warmpod.controller.objects.meta import time_text
from warmpod.controller.objects.views import Meta
from warmpod.controller.telling.metrics import Metrics
from warmpod.controller.telling.transition import Transition

logger = logging.getLogger(__name__)

#: Bytes of a message that the API server accepts.
MESSAGE_BYTES = 1024


class Recorder:
    def __init__(self, kube: Kube, metrics: Metrics, instance: str) -> None:
        self._kube = kube
        self._metrics = metrics
        self._instance = instance

    async def record(self, about: Meta, transition: Transition) -> None:
        """Never raises for what the API server does."""
        event = _event(about, transition, self._instance, datetime.now(UTC))
        self._metrics.writes.labels(EVENT.kind).inc()
        try:
            await self._post(event)
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.reason == "NamespaceTerminating":
                return
            self._metrics.events_lost.inc()
            logger.warning("event %s on %s/%s lost: %s", transition.reason, *about.key, error)

    async def _post(self, event: Object) -> None:
        try:
            await self._kube.create(event)
        except ApiError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
            await self._count_up(event)

    async def _count_up(self, event: Object) -> None:
        meta = event["metadata"]
        again = {"lastTimestamp": event["lastTimestamp"]}
        stored = await self._kube.merge(EVENT, meta["namespace"], meta["name"], again)
        count = {"count": int(stored.get("count") or 1) + 1}
        await self._kube.merge(EVENT, meta["namespace"], meta["name"], count)


def _event(about: Meta, transition: Transition, instance: str, now: datetime) -> dict[str, Any]:
    said = "\0".join((about.uid, transition.type, transition.reason, transition.message))
    time = time_text(now)
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{about.name}.{hashlib.sha256(said.encode()).hexdigest()[:16]}",
            "namespace": about.namespace,
        },
        "involvedObject": {
            "apiVersion": WARM_MODEL.api_version,
            "kind": WARM_MODEL.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "type": transition.type,
        "reason": str(transition.reason),
        "message": _bounded(transition.message),
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": USER_AGENT},
        "reportingComponent": USER_AGENT,
        "reportingInstance": instance,
    }


def _bounded(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= MESSAGE_BYTES:
        return message
    return encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "…"
