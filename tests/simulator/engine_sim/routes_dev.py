"""Routes that only VLLM_SERVER_DEV_MODE=1 opens: sleep, pause, caches."""

from __future__ import annotations

import asyncio

from aiohttp import web

from engine_sim import logs
from engine_sim.errors import RequestError, malformed
from engine_sim.serving import Serving, answer, read_json

MODES = ("abort", "wait", "keep")


class DevRoutes:
    """What moves an engine between running, paused and asleep."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._engine = serving.engine
        self._power = serving.engine.power
        self._fault = serving.setup.knobs.fault.name

    def routes(self) -> list[web.RouteDef]:
        """As in vLLM 0.32."""
        return [
            web.post("/sleep", self._sleep),
            web.post("/wake_up", self._wake_up),
            web.get("/is_sleeping", self._is_sleeping),
            web.post("/pause", self._pause),
            web.post("/resume", self._resume),
            web.get("/is_paused", self._is_paused),
            web.post("/reset_prefix_cache", self._reset_prefix_cache),
            web.post("/reset_mm_cache", self._nothing),
            web.post("/reset_encoder_cache", self._nothing),
            web.post("/collective_rpc", self._collective_rpc),
        ]

    async def _sleep(self, request: web.Request) -> web.Response:
        text = request.query.get("level", "1")
        if text not in ("0", "1", "2"):
            message = "Input should be less than or equal to 2"
            raise malformed("less_than_equal", "level", message, text)
        level, mode = int(text), _mode(request)
        if level and not self._serving.setup.arguments.sleep_mode:
            message = "Sleep mode is not enabled: start the server with --enable-sleep-mode."
            raise RequestError(500, "InternalServerError", message)
        await self._hold(mode)
        if level:
            self._engine.prefixes.clear()
            await asyncio.sleep(self._serving.setup.knobs.sleep_seconds)
        self._power.sleep(level)
        self._say_freed()
        return answer({"status": "sleeping", "level": level})

    def _say_freed(self) -> None:
        freed = 0.2 if self._fault == "memory-not-freed" else 14.0
        held = f"{15 - freed:.2f} GiB memory is still in use."
        message = f"Sleep mode freed {freed:.2f} GiB memory, {held}"
        logs.line("EngineCore", "gpu_worker.py:330", message)

    async def _hold(self, mode: str) -> None:
        """Stop scheduling, and deal with the requests in flight."""
        self._power.pause(freeze=mode == "keep")
        if mode == "abort":
            self._engine.abort()
        if mode != "keep":
            await self._engine.until_batch_empty()

    async def _wake_up(self, request: web.Request) -> web.Response:
        tags = request.query.getall("tags", [])
        logs.line("APIServer", "api_router.py:49", f"wake up the engine with tags: {tags or None}")
        await asyncio.sleep(self._serving.setup.knobs.wake_seconds)
        if self._fault == "wake-hangs":
            await asyncio.Event().wait()
        if self._fault == "wake-fails":
            raise RequestError(500, "InternalServerError", "CUDA error: out of memory")
        awake = self._power.wake(tags)
        return answer({"status": "awake" if awake else "sleeping", "tags": tags or None})

    async def _is_sleeping(self, _request: web.Request) -> web.Response:
        return answer({"is_sleeping": self._power.paused})

    async def _pause(self, request: web.Request) -> web.Response:
        await self._hold(_mode(request))
        if _mode(request) != "keep":
            self._engine.prefixes.clear()
        return answer({"status": "paused"})

    async def _resume(self, _request: web.Request) -> web.Response:
        self._power.resume()
        return answer({"status": "resumed"})

    async def _is_paused(self, _request: web.Request) -> web.Response:
        return answer({"is_paused": self._power.paused})

    async def _reset_prefix_cache(self, _request: web.Request) -> web.Response:
        logs.line("APIServer", "api_router.py:38", "Resetting prefix cache...")
        free = self._engine.running == 0
        if free:
            self._engine.prefixes.clear()
        return answer({"success": free})

    async def _nothing(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _collective_rpc(self, request: web.Request) -> web.Response:
        """Only `reload_weights` does something: it is what makes a level 2 wake-up whole."""
        body = await read_json(request)
        if body.get("method") == "reload_weights":
            self._power.weights_valid = True
        return answer({"results": [None]})


def _mode(request: web.Request) -> str:
    mode = request.query.get("mode", "abort")
    if mode not in MODES:
        raise malformed("literal_error", "mode", "Input should be 'abort', 'wait' or 'keep'", mode)
    return mode
