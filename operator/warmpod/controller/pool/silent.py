"""Sidecars that say nothing: demoted pods are waited for as long as they may take to end."""

from __future__ import annotations

from warmpod.controller.pool.seam import Load, SidecarError
from warmpod.controller.views import PodView


class SilentSidecars:
    async def sleep(self, pod: PodView) -> None:
        raise SidecarError(f"pod {pod.meta.name}: its sidecar cannot be asked to sleep")

    async def wake(self, pod: PodView) -> None:
        raise SidecarError(f"pod {pod.meta.name}: its sidecar cannot be asked to wake up")

    async def load(self, pod: PodView) -> Load | None:
        return None
