"""Calls of the operator to the sidecars of engine pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp

from warmpod.controller.views import PodView
from warmpod.protocol import WARMUP_PORT

#: Seconds for one call; a sidecar answers at once.
TIMEOUT = aiohttp.ClientTimeout(total=3, sock_connect=1)


class SidecarError(Exception):
    """A sidecar did not do what it was asked to."""


@dataclass(frozen=True)
class Load:
    running: int
    waiting: int


class Sidecars:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def warm(self, pod: PodView) -> None:
        """Have it play its warm-up again. Raises SidecarError."""
        await self._call("POST", pod, "warm")

    async def load(self, pod: PodView) -> Load | None:
        """None where there is no answer."""
        try:
            found = await self._call("GET", pod, "load")
            return Load(int(found["running"]), int(found["waiting"]))
        except (SidecarError, KeyError, TypeError, ValueError):
            return None

    async def _call(self, method: str, pod: PodView, verb: str) -> dict[str, Any]:
        if not pod.ip:
            raise SidecarError("the pod has no address yet")
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        url = f"http://{host}:{WARMUP_PORT}/v1/{verb}"
        try:
            async with self._session.request(method, url, timeout=TIMEOUT) as answer:
                if answer.status >= 300:
                    raise SidecarError(f"{verb}: {answer.status}: {(await answer.text())[:300]}")
                found: dict[str, Any] = await answer.json()
                return found
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise SidecarError(f"{verb}: {error or type(error).__name__}") from error
