"""Something that applies objects to an API server in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from unit.controller.builders import NAME, NAMESPACE, UID, Object, World
from unit.controller.fake_kube import FakeKube
from warmpod.controller.apiserver.kinds import SERVICE
from warmpod.controller.apply import Applier, Outcome
from warmpod.controller.objects.cache import Cache
from warmpod.controller.telling.metrics import Metrics
from warmpod.resources import service

KEY = (NAMESPACE, NAME)
MODEL = World().parsed
SERVICE_BODY = service.build(MODEL)


@dataclass
class Bench:
    kube: FakeKube = field(default_factory=FakeKube)
    cache: Cache = field(default_factory=Cache)
    now: float = 0.0

    def __post_init__(self) -> None:
        metrics = Metrics(CollectorRegistry(), self.cache)
        self.applier = Applier(
            self.kube,  # type: ignore[arg-type]
            self.cache,
            metrics,
            clock=lambda: self.now,
        )

    async def apply(self, *objects: Object) -> Outcome:
        return await self.applier.apply(KEY, UID, objects or (SERVICE_BODY,))

    async def told(self, **changes: Any) -> None:
        """Somebody changes the Service, and the watch tells."""
        stored = self.kube.find(SERVICE, NAME)
        assert stored is not None
        self.cache.upsert(SERVICE, self.kube.put({**stored, **changes}))
