"""The HTTP server: vLLM's paths, status codes and bodies."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from engine_sim import logs, replies
from engine_sim.engine import Engine, EngineDeadError
from engine_sim.replies import Json, Reply
from engine_sim.requests import RequestError, read_request
from engine_sim.settings import VERSION, Arguments, Knobs

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAX_BODY_BYTES = 64 * 1024 * 1024


class Server:
    """Answers requests with what the engine generates."""

    def __init__(self, arguments: Arguments, knobs: Knobs, engine: Engine) -> None:
        self._arguments = arguments
        self._knobs = knobs
        self._engine = engine
        self._created = int(time.time())

    def application(self) -> web.Application:
        """The aiohttp application."""
        application = web.Application(
            middlewares=[access_log, self._authenticate], client_max_size=MAX_BODY_BYTES
        )
        application.add_routes(
            [
                web.get("/health", self._health),
                web.get("/ping", self._health),
                web.post("/ping", self._health),
                web.get("/version", self._version),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat),
            ]
        )
        return application

    @web.middleware
    async def _authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """vLLM's api key guards /v1 only."""
        key = self._arguments.api_key
        guarded = key is not None and request.path.startswith("/v1")
        if guarded and request.headers.get("Authorization") != f"Bearer {key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(status=503 if self._engine.dead else 200)

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": VERSION})

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._engine.metrics.render())

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response(replies.models(self._arguments, self._created))

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate("completions", request)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate("chat", request)

    async def _generate(self, endpoint: str, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
            wanted = read_request(endpoint, body, self._arguments)
            if self._knobs.fault.name == "error-500":
                raise RequestError(500, "InternalServerError", "simulated failure")
            reply = replies.reply_to(wanted, shown=self._knobs.fault.name != "empty-content")
            if wanted.stream:
                return await self._stream(request, reply)
            async for _step in self._engine.steps(wanted, reply.steps):
                pass
            return web.json_response(reply.whole())
        except json.JSONDecodeError as broken:
            return _failed(400, "BadRequestError", f"the body is not JSON: {broken}")
        except RequestError as refused:
            return _failed(refused.status, refused.kind, str(refused))
        except EngineDeadError as dead:
            return _failed(500, "InternalServerError", str(dead))

    async def _stream(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        """Send the answer as server-sent events; an error after the first goes in the stream."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        try:
            async for step in self._engine.steps(reply.request, reply.steps):
                if step == 0 and reply.request.endpoint == "chat":
                    await _send(response, reply.role_chunk())
                await _send(response, reply.step_chunk(step))
            if reply.request.include_usage:
                await _send(response, reply.usage_chunk())
        except EngineDeadError as dead:
            await _send(response, replies.error(500, "InternalServerError", str(dead)))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


async def _send(response: web.StreamResponse, chunk: Json) -> None:
    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _failed(status: int, kind: str, message: str) -> web.Response:
    return web.json_response(replies.error(status, kind, message), status=status)


@web.middleware
async def access_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Print uvicorn's line about each request."""
    try:
        response = await handler(request)
    except web.HTTPException as refused:
        response = refused
    peer = request.transport and request.transport.get_extra_info("peername")
    client = f"{peer[0]}:{peer[1]}" if peer else "-"
    status = f"{response.status} {HTTPStatus(response.status).phrase}"
    logs.plain(f'INFO:     {client} - "{request.method} {request.path_qs} HTTP/1.1" {status}')
    if isinstance(response, web.HTTPException):
        raise response
    return response
