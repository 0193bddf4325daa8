"""What the routes share: the server's state, JSON bodies in, answers and errors out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from engine_sim.adapters import Adapters
from engine_sim.engine import Engine, Progress, Work
from engine_sim.errors import Json, malformed
from engine_sim.setup import Setup

PRIORITY_HEADER = "X-Vllm-Priority"


class Serving:
    """A server's state."""

    def __init__(self, setup: Setup, engine: Engine) -> None:
        self.setup = setup
        self.engine = engine
        self.adapters = Adapters(setup)
        self.load = 0

    @property
    def wrong(self) -> bool:
        """Whether the weights are broken, so that every answer is."""
        fault, power = self.setup.knobs.fault.name, self.engine.power
        after_wake = fault == "wrong-text-after-wake" and power.woken > 0
        return fault == "wrong-text" or after_wake or not power.weights_valid

    async def compute(self, works: Sequence[Work]) -> None:
        """Run requests that have one step and no tokens, all at once."""
        await asyncio.gather(*map(self._compute, works))

    async def _compute(self, work: Work) -> None:
        async for _step in self.engine.steps(work, 1, Progress()):
            pass


async def read_json(request: web.Request) -> Json:
    """The body; raises RequestError for one that is no JSON object."""
    if request.content_type != "application/json":
        message = "Unsupported Media Type: Only 'application/json' is allowed"
        raise malformed("value_error", "", message, request.content_type)
    try:
        body = await request.json()
    except json.JSONDecodeError as broken:
        raise malformed("json_invalid", str(broken.pos), "JSON decode error", {}) from broken
    if not isinstance(body, dict):
        raise malformed("model_attributes_type", "", "Input should be a valid dictionary", body)
    return body


def priority_of(request: web.Request) -> int | None:
    """The priority in the request's header, which overrides the body's."""
    try:
        return int(request.headers[PRIORITY_HEADER])
    except (KeyError, ValueError):
        return None


async def send(response: web.StreamResponse, chunk: Json) -> None:
    """One server-sent event."""
    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")


async def event_stream(request: web.Request) -> web.StreamResponse:
    """Begin a stream of server-sent events."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


async def end_stream(response: web.StreamResponse) -> None:
    """End it as OpenAI's API does."""
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()


def answer(body: Any) -> web.Response:
    """A JSON body with status 200."""
    return web.json_response(body)
