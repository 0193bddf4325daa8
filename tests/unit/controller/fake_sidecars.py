"""Sidecars in memory, with the interface of the pool's `Sidecars`."""

from __future__ import annotations

from warmpod.controller.clients.sidecars import Load, SidecarError
from warmpod.controller.objects.views import PodView


class FakeSidecars:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        """Verb and pod of every call."""
        self.loads: dict[str, Load] = {}
        """By pod; one that is not there gives no answer."""
        self.refusing: set[str] = set()

    async def sleep(self, pod: PodView) -> None:
        self._called("sleep", pod)

    async def wake(self, pod: PodView) -> None:
        self._called("wake", pod)

    async def load(self, pod: PodView) -> Load | None:
        self.calls.append(("load", pod.meta.name))
        return self.loads.get(pod.meta.name)

    def _called(self, verb: str, pod: PodView) -> None:
        self.calls.append((verb, pod.meta.name))
        if pod.meta.name in self.refusing:
            raise SidecarError(f"pod {pod.meta.name} refuses")
