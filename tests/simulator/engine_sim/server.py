"""The HTTP server: vLLM's paths, status codes and bodies."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from engine_sim import logs
from engine_sim.engine import Engine
from engine_sim.errors import EngineDeadError, Json, RequestError, body_of, plain_body
from engine_sim.middleware import Middleware
from engine_sim.routes_audio import AudioRoutes
from engine_sim.routes_basic import BasicRoutes
from engine_sim.routes_dev import DevRoutes
from engine_sim.routes_generate import GenerateRoutes
from engine_sim.routes_pooling import PoolingRoutes
from engine_sim.serving import Serving
from engine_sim.setup import Setup

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAX_BODY_BYTES = 64 * 1024 * 1024
# What vLLM's api key guards; everything else is open.
GUARDED = ("/v1", "/v2", "/inference", "/cohere")
# Routes whose requests count as load: those that use the GPU.
LOAD = (
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/audio/transcriptions",
    "/pooling",
    "/classify",
    "/score",
    "/v1/score",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
)


class Server:
    """Answers requests with what the engine computes."""

    def __init__(self, setup: Setup, engine: Engine) -> None:
        self._setup = setup
        self._serving = Serving(setup, engine)

    def application(self) -> web.Application:
        """The aiohttp application, with the routes of the served tasks only."""
        application = web.Application(
            middlewares=[
                access_log,
                *(Middleware(name).handle for name in self._setup.arguments.middleware),
                answer_errors,
                self._authenticate,
                self._count_load,
            ],
            client_max_size=MAX_BODY_BYTES,
        )
        routes = [*self._routes(), web.get("/openapi.json", self._openapi)]
        application.add_routes(routes)
        self._schema = _schema(routes)
        return application

    def _routes(self) -> list[web.RouteDef]:
        model, serving = self._setup.model, self._serving
        routes = BasicRoutes(serving).routes()
        if self._setup.switches.dev_mode:
            routes += DevRoutes(serving).routes()
        if model.generates:
            routes += GenerateRoutes(serving).routes()
        if model.transcribes:
            routes += AudioRoutes(serving).routes()
        if model.pooling:
            routes += PoolingRoutes(serving).routes()
        return routes

    async def _openapi(self, _request: web.Request) -> web.Response:
        return web.json_response(self._schema)

    @web.middleware
    async def _authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        keys = self._setup.arguments.api_keys
        guarded = keys and request.path.startswith(GUARDED) and request.method != "OPTIONS"
        if guarded and not _known(request.headers.get("Authorization", ""), keys):
            return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    @web.middleware
    async def _count_load(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        counts = self._setup.arguments.load_tracking and request.path in LOAD
        self._serving.load += counts
        try:
            return await handler(request)
        finally:
            self._serving.load -= counts


def _known(header: str, keys: tuple[str, ...]) -> bool:
    scheme, _, given = header.partition(" ")
    if scheme.lower() != "bearer":
        return False
    return any(secrets.compare_digest(given.encode(), key.encode()) for key in keys)


def _schema(routes: list[web.RouteDef]) -> Json:
    """What /openapi.json says: paths and methods; bodies are not described."""
    paths: dict[str, Json] = {}
    for route in routes:
        if route.path not in ("/openapi.json", "/metrics"):
            responses = {"200": {"description": "Successful Response"}}
            paths.setdefault(route.path, {})[route.method.lower()] = {"responses": responses}
    return {"openapi": "3.1.0", "info": {"title": "FastAPI", "version": "0.1.0"}, "paths": paths}


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn what went wrong into vLLM's error bodies."""
    try:
        return await handler(request)
    except RequestError as refused:
        body = body_of(refused.status, refused.kind, str(refused), refused.param)
        return web.json_response(body, status=refused.status)
    except EngineDeadError as dead:
        return web.json_response(body_of(500, "InternalServerError", str(dead)), status=500)
    except web.HTTPException as refused:
        body = plain_body(refused.status, HTTPStatus(refused.status).phrase)
        return web.json_response(body, status=refused.status)
    except ConnectionError:
        raise  # the client is gone
    except OSError as failed:  # a cache that cannot be written
        logs.plain(traceback.format_exc())
        return web.json_response(body_of(500, "InternalServerError", str(failed)), status=500)
    except (LookupError, AttributeError, TypeError, ValueError) as unreadable:
        # A body of an unexpected shape, which vLLM's schemas would have refused. A mistake of the
        # simulator would look the same, so it is printed.
        logs.plain(traceback.format_exc())
        text = f"1 validation error:\n  {unreadable!r}"
        return web.json_response(plain_body(400, text), status=400)


@web.middleware
async def access_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Print uvicorn's line about each request."""
    response = await handler(request)
    peer = request.transport and request.transport.get_extra_info("peername")
    client = f"{peer[0]}:{peer[1]}" if peer else "-"
    status = f"{response.status} {HTTPStatus(response.status).phrase}"
    logs.plain(f'INFO:     {client} - "{request.method} {request.path_qs} HTTP/1.1" {status}')
    return response
