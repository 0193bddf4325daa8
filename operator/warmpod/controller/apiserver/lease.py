"""The Lease that lets only one operator run.

Two operators would not corrupt anything, server-side apply sees to that, but they would undo each
other's writes during an upgrade. The election of `kubernetes.aio` is not used: it writes local time
as if it were UTC, lets a refused connection escape, and never gives the Lease back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from warmpod.controller.apiserver.kinds import LEASE
from warmpod.controller.apiserver.kube import ApiError, Kube, Object, Unreachable

logger = logging.getLogger(__name__)

NAME = "warmpod-operator"
#: Seconds: how long a silent holder is respected, when the holder itself must have given up
#: (earlier, so that two never overlap), and how often it renews.
DURATION = 30
RENEW_DEADLINE = 20.0
RENEW_PERIOD = 5.0
RETRY_PERIOD = 2.0
#: Seconds for one try; the last one may begin just before the deadline and must end in time.
ATTEMPT_TIMEOUT = 5.0


class LeaseLost(Exception):
    """Somebody else may be running now: this process must end."""


class Lease:
    def __init__(
        self,
        kube: Kube,
        namespace: str,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._seen = ""
        self._seen_at = 0.0
        self.renewed_at: float | None = None
        """Monotonic time of the last renewal that the API server confirmed."""

    async def acquire(self) -> None:
        """Returns once this process holds the Lease."""
        logger.info("waiting for lease %s/%s", self._namespace, NAME)
        while True:
            if await self._attempt():
                break
            await asyncio.sleep(RETRY_PERIOD)
        logger.info("holding lease %s/%s as %s", self._namespace, NAME, self._identity)

    async def keep(self) -> None:
        """Renews for ever. Raises LeaseLost when it could not for too long, or somebody took it."""
        while True:
            await asyncio.sleep(RENEW_PERIOD)
            await self._renew()

    async def _renew(self) -> None:
        deadline = (self.renewed_at or self._clock()) + RENEW_DEADLINE
        while not await self._attempt():
            if self._clock() >= deadline:
                raise LeaseLost(f"lease {self._namespace}/{NAME} could not be renewed")
            await asyncio.sleep(RETRY_PERIOD)

    async def release(self) -> None:
        """Lets the successor start at once. Best effort: the Lease runs out by itself."""
        try:
            lease = await self._kube.get(LEASE, self._namespace, NAME)
            if lease and lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"].update(holderIdentity="", leaseDurationSeconds=1)
                await self._kube.replace(lease)
        except (ApiError, Unreachable) as error:
            logger.warning("lease was not given back, it runs out in %d s: %s", DURATION, error)

    async def _attempt(self) -> bool:
        """One try to take or renew; False when somebody else holds it or the API cannot be
        reached."""
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT):
                held = await self._take()
        except ApiError as error:
            if error.status != 409:
                logger.warning("lease: %s", error)
            return False
        except (Unreachable, TimeoutError) as error:
            logger.warning("lease: %s", str(error) or "time-out")
            return False
        if held:
            self.renewed_at = self._clock()
        return held

    async def _take(self) -> bool:
        lease = await self._kube.get(LEASE, self._namespace, NAME)
        if lease is None:
            await self._kube.create(self._body({}, fresh=True))
            return True
        spec = lease.get("spec") or {}
        mine = spec.get("holderIdentity") == self._identity
        if not mine and not self._expired(spec):
            return False
        body = self._body(spec, fresh=not mine)
        body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
        await self._kube.replace(body)
        return True

    def _expired(self, spec: Object) -> bool:
        """By our own clock since the last change we saw: clocks of two nodes may differ."""
        record = f"{spec.get('holderIdentity')} {spec.get('renewTime')}"
        if record != self._seen:
            self._seen, self._seen_at = record, self._clock()
        if not spec.get("holderIdentity"):
            return True
        return self._clock() - self._seen_at > float(spec.get("leaseDurationSeconds") or DURATION)

    def _body(self, spec: Object, *, fresh: bool) -> Object:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        transitions = int(spec.get("leaseTransitions") or 0) + (1 if fresh and spec else 0)
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": NAME, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": DURATION,
                "acquireTime": now if fresh else spec.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }
