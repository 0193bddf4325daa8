"""The agent's HTTP side: readiness, metrics, and the facts for people."""

from __future__ import annotations

from aiohttp import web

from warmpod.agent.config import AgentConfig
from warmpod.agent.metrics import Metrics
from warmpod.agent.state import State


def make_application(config: AgentConfig, state: State) -> web.Application:
    metrics = Metrics(config, state)

    async def readyz(_: web.Request) -> web.Response:
        verdict = state().verdict
        text = f"{verdict.reason}: {verdict.message}\n"
        return web.Response(text=text, status=200 if verdict.ready else 503)

    async def show_metrics(_: web.Request) -> web.Response:
        # The header may not be given through content_type, which allows no parameters.
        headers = {"Content-Type": "text/plain; version=0.0.4"}
        return web.Response(body=metrics.render(), headers=headers)

    async def status(_: web.Request) -> web.Response:
        now = state()
        return web.json_response(
            {
                "model": config.model,
                "medium": config.medium,
                "ready": now.verdict.ready,
                "reason": now.verdict.reason,
                "message": now.verdict.message,
                "sets": [each.document() for each in now.sets],
            }
        )

    application = web.Application()
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", show_metrics)
    application.router.add_get("/status", status)
    return application
