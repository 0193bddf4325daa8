"""Asks the API server what kubelets say about volumes. Events are not watched: there are too many,
and these matter only while a pod hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from warmpod.controller.apiserver.kinds import EVENT
from warmpod.controller.apiserver.kube import Kube, Object
from warmpod.controller.diagnosis import mounts

#: Seconds for which the events of a namespace are believed, however many of its pods hang.
SECONDS = 15.0
#: Pages of events that are read: more of one reason than these hold, nobody looks through.
PAGES = 4


class MountEvents:
    def __init__(self, kube: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._known: dict[str, tuple[float, Mapping[str, str]]] = {}

    async def failures(self, namespace: str) -> Mapping[str, str]:
        """What was said last about pods of the namespace, by uid. Raises ApiError, Unreachable."""
        now = self._clock()
        known = self._known.get(namespace)
        if known is not None and now < known[0]:
            return known[1]
        events: list[Object] = []
        for reason in mounts.REASONS:
            events += await self._ask(namespace, reason)
        found = mounts.failures(events, datetime.now(UTC))
        self._known = {name: old for name, old in self._known.items() if now < old[0]}
        self._known[namespace] = (now + SECONDS, found)
        return found

    async def _ask(self, namespace: str, reason: str) -> list[Object]:
        """One question for all pods costs the API server as much as one for a single pod."""
        fields = f"involvedObject.kind=Pod,reason={reason}"
        events: list[Object] = []
        pages = 0
        async for page, _ in self._kube.list_pages(EVENT, namespace, fields=fields):
            events += page
            pages += 1
            if pages == PAGES:
                break
        return events
