"""The operator's way in: what it may ask of this pod, over HTTP, with a token of its own."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from warmpod import reasons
from warmpod.sidecar.orders import OrderRefused, Orders
from warmpod.sidecar.supervisor import Supervisor
from warmpod.sidecar.tokens import TokenRefused, TokenVerifier

log = logging.getLogger(__name__)

Action = Callable[[Orders], Awaitable[web.Response]]
Handler = Callable[[web.Request], Awaitable[web.Response]]

UNCONFIGURED = "the revision of this pod was rendered by an operator that calls no sidecars"


class Control:
    """Without a verifier there is nobody who could be let in, and everything is answered 501."""

    def __init__(self, supervisor: Supervisor, verifier: TokenVerifier | None) -> None:
        self._supervisor = supervisor
        self._verifier = verifier

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/sleep", self._guarded(self._sleep)),
            web.post("/v1/wake", self._guarded(self._wake)),
            web.post("/v1/warm", self._guarded(self._warm)),
            web.get("/v1/load", self._guarded(self._load)),
        ]

    def _guarded(self, action: Action) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            if self._verifier is None:
                return _problem(501, UNCONFIGURED)
            try:
                await self._verifier.verify(request.headers.get("Authorization", ""))
            except TokenRefused as refused:
                log.warning("%s by %s refused: %s", request.path, request.remote, refused)
                return _problem(401, "unauthorized")
            return await self._act(action)

        return handle

    async def _act(self, action: Action) -> web.Response:
        orders = self._supervisor.orders
        if orders is None:
            return _problem(409, "no engine boot yet")
        try:
            return await action(orders)
        except OrderRefused as refused:
            return _problem(refused.status, str(refused))

    async def _sleep(self, orders: Orders) -> web.Response:
        verdict = self._supervisor.gate.verdict
        # Not one that was let in unproven: its answers could not be compared after the wake-up.
        await orders.sleep(warm=verdict is not None and verdict.reason == reasons.WARM)
        return self._accepted(orders)

    async def _wake(self, orders: Orders) -> web.Response:
        orders.wake()
        return self._accepted(orders)

    async def _warm(self, orders: Orders) -> web.Response:
        orders.warm()
        return self._accepted(orders)

    async def _load(self, orders: Orders) -> web.Response:
        load = await orders.load()
        return web.json_response({"running": load.running, "waiting": load.waiting})

    def _accepted(self, orders: Orders) -> web.Response:
        """How things stand; what comes of it is for the pod's condition to tell."""
        verdict = self._supervisor.gate.verdict
        body = {
            "reason": verdict.reason if verdict else None,
            "message": verdict.message if verdict else None,
            "replay": orders.replay_state(),
        }
        return web.json_response(body, status=202)


def _problem(status: int, why: str) -> web.Response:
    return web.json_response({"error": why}, status=status)
