"""What the pool needs of the sidecars of engine pods, and nothing of how it gets there."""

from __future__ import annotations

from typing import Protocol

from warmpod.controller.clients.sidecars import Load
from warmpod.controller.objects.views import PodView


class Sidecars(Protocol):
    async def sleep(self, pod: PodView) -> None:
        """Has the engine put to sleep once it is idle; fine if it sleeps. Raises SidecarError."""

    async def wake(self, pod: PodView) -> None:
        """Begins to wake the engine; fine if it wakes up or is awake. Raises SidecarError."""

    async def load(self, pod: PodView) -> Load | None:
        """None: no answer. Raises nothing."""
