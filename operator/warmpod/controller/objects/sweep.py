"""Lists of everything the cache holds: at start, every ten minutes, and after a watch began anew.

The first list comes before the first decision, so that an operator that has just started does not
take pods it has not heard of yet for missing. The later ones are the back-stop against whatever a
watch did not tell, above all deletions that happened while it was cut.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from warmpod.controller.apiserver.events import label_selector
from warmpod.controller.apiserver.kinds import CACHED, NODE, Kind
from warmpod.controller.apiserver.kube import ApiError, Kube, Unreachable
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.views import Key

logger = logging.getLogger(__name__)

#: Seconds between full sweeps, each time spread by a fifth.
PERIOD = 600.0
#: Seconds to the sweep of one kind after its watch began anew; many such events are one sweep.
RELIST_DELAY = 30.0
#: Seconds to the next try when the API server cannot be reached.
RETRY_DELAY = 5.0


class Sweeper:
    def __init__(
        self, kube: Kube, cache: Cache, namespaces: tuple[str, ...], add: Callable[[Key], None]
    ) -> None:
        self.kinds: tuple[Kind, ...] = CACHED
        self._kube = kube
        self._cache = cache
        self._namespaces: tuple[str | None, ...] = namespaces or (None,)
        self._add = add
        self._due: dict[Kind, asyncio.Task[None]] = {}

    async def everything(self) -> None:
        """Lists all kinds, then has every WarmModel looked at. Raises ApiError, Unreachable."""
        for kind in self.kinds:
            await self.sweep(kind)
        for model in self._cache.models():
            self._add(model.meta.key)

    async def initially(self, before: Callable[[], Awaitable[None]]) -> None:
        """As `everything` and what comes before it, until both succeed."""
        while True:
            try:
                await before()
                return await self.everything()
            except (ApiError, Unreachable) as error:
                logger.warning("initial lists: %s; next try in %.0f s", error, RETRY_DELAY)
                await asyncio.sleep(RETRY_DELAY)

    async def periodically(self) -> None:
        while True:
            await asyncio.sleep(PERIOD * random.uniform(0.8, 1.2))  # noqa: S311 (no secret)
            try:
                await self.everything()
            except (ApiError, Unreachable) as error:
                logger.warning("sweep: %s; the next one is in %.0f s", error, PERIOD)

    def relisted(self, kind: Kind) -> None:
        """The watch of a kind began anew with a list, which does not tell what is gone."""
        if kind not in self._due:
            self._due[kind] = asyncio.create_task(self._later(kind))

    async def _later(self, kind: Kind) -> None:
        try:
            await asyncio.sleep(RELIST_DELAY)
            await self.sweep(kind)
        except (ApiError, Unreachable) as error:
            logger.warning("sweep of %s: %s; the next one comes with all", kind.plural, error)
        finally:
            del self._due[kind]

    async def sweep(self, kind: Kind) -> None:
        for namespace in (None,) if kind is NODE else self._namespaces:
            uids, version = set(), 0
            pages = self._kube.list_pages(kind, namespace, labels=label_selector(kind))
            async for page, version in pages:  # noqa: B007 (the list's version is wanted below)
                for obj in page:
                    uids.add(obj["metadata"]["uid"])
                    self._cache.upsert(kind, obj)
            for key in self._cache.prune(kind, namespace, uids, version):
                self._add(key)
