"""`--middleware`: an ASGI class is imported and asked about each request, as in vLLM.

The server is no ASGI application, so only two things are seen of it: that it answers by itself, or
that it lets the request pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Message = dict[str, Any]
PASSED = "engine_sim.passed"


class Middleware:
    """One class. Raises what its import raises."""

    def __init__(self, name: str) -> None:
        module, _, attribute = name.rpartition(".")
        self._asked = getattr(importlib.import_module(module), attribute)(_let_pass)

    @web.middleware
    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        scope = _scope(request)
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": await request.read(), "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._asked(scope, receive, send)
        return await handler(request) if PASSED in scope else _response(sent)


async def _let_pass(scope: Message, _receive: Any, _send: Any) -> None:
    scope[PASSED] = True


def _scope(request: web.Request) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "root_path": "",
        "query_string": request.query_string.encode(),
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
    }


def _response(sent: list[Message]) -> web.Response:
    start = next(message for message in sent if message["type"] == "http.response.start")
    body = b"".join(
        message.get("body", b"") for message in sent if message["type"] == "http.response.body"
    )
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    headers.pop("content-length", None)
    return web.Response(status=start["status"], headers=headers, body=body)
