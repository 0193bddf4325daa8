"""Routes that every server has, whatever its model does."""

from __future__ import annotations

from aiohttp import web

from engine_sim import prompts, tokens
from engine_sim.errors import malformed, missing
from engine_sim.knobs import VERSION
from engine_sim.requests import check_length
from engine_sim.serving import Serving, answer, read_json


class BasicRoutes:
    """Health, metrics, models, adapters, tokenizer."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def routes(self) -> list[web.RouteDef]:
        """Adapters can be changed only where vLLM was told so."""
        found = [
            web.get("/health", self._health),
            web.get("/ping", self._health),
            web.post("/ping", self._health),
            web.get("/load", self._load),
            web.get("/version", self._version),
            web.get("/metrics", self._metrics),
            web.get("/v1/models", self._models),
            web.post("/tokenize", self._tokenize),
            web.post("/detokenize", self._detokenize),
        ]
        if self._serving.setup.switches.runtime_lora:
            found += [
                web.post("/v1/load_lora_adapter", self._load_adapter),
                web.post("/v1/unload_lora_adapter", self._unload_adapter),
            ]
        return found

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(status=503 if self._serving.engine.dead else 200)

    async def _load(self, _request: web.Request) -> web.Response:
        return answer({"server_load": self._serving.load})

    async def _version(self, _request: web.Request) -> web.Response:
        return answer({"version": VERSION})

    async def _metrics(self, _request: web.Request) -> web.Response:
        page = self._serving.engine.page()
        content_type = "text/plain; version=0.0.4; charset=utf-8"
        return web.Response(body=page.encode(), headers={"Content-Type": content_type})

    async def _models(self, _request: web.Request) -> web.Response:
        return answer(self._serving.adapters.cards())

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        setup = self._serving.setup
        self._serving.adapters.resolve(body.get("model"))
        if "messages" in body:
            prompt = prompts.of_chat(body, setup.model)
        elif isinstance(body.get("prompt"), str):
            prompt = prompts.of_text(body["prompt"])
        else:
            raise missing("prompt", body)
        check_length(prompt.length, setup.arguments)
        shown = [tokens.text([token]) for token in prompt.token_ids]
        return answer(
            {
                "count": prompt.length,
                "max_model_len": setup.arguments.max_model_len,
                "tokens": list(prompt.token_ids),
                "token_strs": shown if body.get("return_token_strs") else None,
            }
        )

    async def _detokenize(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        self._serving.adapters.resolve(body.get("model"))
        if "tokens" not in body:
            raise missing("tokens", body)
        if any(not isinstance(token, int) or token < 0 for token in body["tokens"]):
            raise malformed("int_type", "tokens", "Input should be a valid integer", body["tokens"])
        return answer({"prompt": tokens.text(body["tokens"])})

    async def _load_adapter(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        for name in ("lora_name", "lora_path"):
            if name not in body:
                raise missing(name, body)
        in_place = bool(body.get("load_inplace"))
        text = self._serving.adapters.load(body["lora_name"], body["lora_path"], in_place)
        return web.Response(text=text)

    async def _unload_adapter(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        if "lora_name" not in body:
            raise missing("lora_name", body)
        return web.Response(text=self._serving.adapters.unload(body["lora_name"]))
