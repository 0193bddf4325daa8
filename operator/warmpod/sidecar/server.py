"""The sidecar's HTTP server: the second lock, metrics, pages that explain, and orders."""

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from warmpod.sidecar.control import Control
from warmpod.sidecar.supervisor import Supervisor
from warmpod.sidecar.tokens import TokenVerifier


class Server:
    def __init__(self, supervisor: Supervisor, port: int, verifier: TokenVerifier | None) -> None:
        self._supervisor = supervisor
        self._port = port
        app = web.Application()
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/status", self._status)
        app.router.add_get("/plan", self._plan)
        app.router.add_routes(Control(supervisor, verifier).routes())
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self) -> int:
        """Listen on all addresses, IPv4 and IPv6; returns the port."""
        await self._runner.setup()
        await web.TCPSite(self._runner, None, self._port).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _readyz(self, _: web.Request) -> web.Response:
        verdict = self._supervisor.gate.verdict
        text = f"{verdict.reason}: {verdict.message}\n" if verdict else "looking around\n"
        return web.Response(status=200 if self._supervisor.gate.is_open else 503, text=text)

    async def _metrics(self, _: web.Request) -> web.Response:
        page = await self._supervisor.render_metrics()
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _status(self, _: web.Request) -> web.Response:
        return web.json_response(self._supervisor.status())

    async def _plan(self, _: web.Request) -> web.Response:
        return web.json_response(self._supervisor.plan())
