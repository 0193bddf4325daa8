"""The operator's HTTP endpoints: is it alive, is it ready, what does it count.

Alive means that watch events arrive, not that the API server answers: an operator whose watch is
silently dead looks busy and does nothing, while restarting it during an outage of the API server
helps nobody. The proof is the operator's own Lease: each renewal must come back as a watch event.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

#: Seconds without the event of a renewal before the watch counts as dead. kopf reconnects a silent
#: watch after 70 s by itself, so this is only reached when that did not help.
DEAF_SECONDS = 90.0
#: Seconds for which a renewal counts as recent.
RECENT_SECONDS = 30.0


@dataclass
class Health:
    """What the endpoints answer from; the parts of the operator write into it."""

    heartbeat_watched: bool = True
    """False when the watch does not cover the operator's own namespace: nothing can be proven."""
    clock: Callable[[], float] = time.monotonic
    listed: bool = False
    lease_held_at: float | None = None
    renewed_at: Callable[[], float | None] = field(default=lambda: None)
    heartbeat_at: float | None = None

    def heartbeat(self) -> None:
        """An event of our own Lease has arrived."""
        self.heartbeat_at = self.clock()

    @property
    def deaf(self) -> bool:
        """Whether renewals succeed while none of them comes back."""
        renewed = self.renewed_at()
        if not self.heartbeat_watched or renewed is None or self.lease_held_at is None:
            return False
        now = self.clock()
        if now - renewed > RECENT_SECONDS:
            return False
        heard = max(self.heartbeat_at or 0.0, self.lease_held_at)
        return now - heard > DEAF_SECONDS

    @property
    def ready(self) -> bool:
        return self.listed and self.lease_held_at is not None


def application(health: Health, registry: CollectorRegistry) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        if health.deaf:
            return web.Response(
                status=503, text=f"no watch event for {DEAF_SECONDS:.0f} s although the API answers"
            )
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        if health.ready:
            return web.Response(text="ok")
        waiting = "lease" if health.lease_held_at is None else "initial lists"
        return web.Response(status=503, text=f"waiting for {waiting}")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        )

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    return app


async def serve(app: web.Application, port: int) -> web.AppRunner:
    """Starts to listen on all addresses; the caller cleans the runner up."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, None, port).start()
    return runner
