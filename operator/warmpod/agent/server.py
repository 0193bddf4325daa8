"""The agent's HTTP side: readiness, metrics, and the facts for people."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from warmpod.agent.config import AgentConfig
from warmpod.agent.lifecycle import Facts, Verdict
from warmpod.agent.metrics import Metrics

State = Callable[[], tuple[Facts, Verdict, int]]


def make_application(config: AgentConfig, state: State) -> web.Application:
    """`state` gives facts, verdict and the number of reloads; it must not block."""
    metrics = Metrics(config)

    async def readyz(_: web.Request) -> web.Response:
        verdict = state()[1]
        text = f"{verdict.reason}: {verdict.message}\n"
        return web.Response(text=text, status=200 if verdict.ready else 503)

    async def show_metrics(_: web.Request) -> web.Response:
        content = metrics.render(*state())
        # The header may not be given through content_type, which allows no parameters.
        return web.Response(body=content, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def status(_: web.Request) -> web.Response:
        return web.json_response(_status_document(config, *state()))

    application = web.Application()
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", show_metrics)
    application.router.add_get("/status", status)
    return application


def _status_document(
    config: AgentConfig, facts: Facts, verdict: Verdict, reloads: int
) -> dict[str, object]:
    measurement = facts.measurement
    return {
        "model": config.model,
        "revision": config.revision,
        "medium": config.medium,
        "stage": facts.stage,
        "ready": verdict.ready,
        "reason": verdict.reason,
        "message": verdict.message,
        "files": facts.files,
        "bytes": facts.total,
        "stageBytes": facts.done,
        "residentBytes": measurement.resident if measurement else 0,
        "locked": measurement.locked if measurement else False,
        "reloads": reloads,
        "findings": [
            {"path": f.path, "reason": f.reason, "detail": f.detail} for f in facts.findings[:100]
        ],
    }
