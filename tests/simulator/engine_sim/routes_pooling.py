"""What a pooling model serves: its own task, /pooling, and scores where it can."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from engine_sim import pooling
from engine_sim.engine import Work
from engine_sim.errors import Json, RequestError, bad
from engine_sim.pooling import Mind
from engine_sim.prompts import Prompt
from engine_sim.requests import check_length, checked_priority
from engine_sim.serving import Serving, answer, priority_of, read_json


class PoolingRoutes:
    """Every one runs its prompts through the engine, then makes up what comes of them."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._mind = Mind(serving.setup)

    def routes(self) -> list[web.RouteDef]:
        """The routes of the task, as vLLM registers them."""
        model = self._serving.setup.model
        found = [web.post("/pooling", self._pooling)]
        if model.pooling == "embed":
            found.append(web.post("/v1/embeddings", self._embeddings))
        if model.pooling == "classify":
            found.append(web.post("/classify", self._classify))
        if model.scores:
            found += [web.post(path, self._score) for path in ("/score", "/v1/score")]
            paths = ("/rerank", "/v1/rerank", "/v2/rerank")
            found += [web.post(path, self._rerank) for path in paths]
        return found

    async def _embeddings(self, request: web.Request) -> web.Response:
        body, model, adapter = await self._read(request)
        encoding = pooling.check_encoding(body)
        inputs = pooling.read_inputs(body, self._serving.setup)
        tokens = await self._compute("embeddings", request, body, adapter, inputs)
        data = [
            {
                "index": index,
                "object": "embedding",
                "embedding": pooling.encoded(
                    self._mind.embedding(prompt, adapter, body.get("dimensions")), encoding
                ),
            }
            for index, prompt in enumerate(inputs)
        ]
        return answer(pooling.listed("embd", model, data, tokens))

    async def _pooling(self, request: web.Request) -> web.Response:
        body, model, adapter = await self._read(request)
        encoding = pooling.check_encoding(body)
        task = body.get("task") or self._serving.setup.model.pooling
        if task not in self._serving.setup.model.tasks:
            tasks = self._serving.setup.model.tasks
            raise bad(f"Unsupported task: {task!r} Supported tasks: {tasks}", "task")
        inputs = pooling.read_inputs(body, self._serving.setup)
        tokens = await self._compute("pooling", request, body, adapter, inputs)
        data = [
            {
                "index": index,
                "object": "pooling",
                "data": self._pooled(task, prompt, adapter, encoding),
            }
            for index, prompt in enumerate(inputs)
        ]
        return answer(pooling.listed("pool", model, data, tokens))

    def _pooled(self, task: str, prompt: Prompt, adapter: str, encoding: str) -> object:
        if task.endswith("classify"):
            vector = self._mind.probabilities(prompt, adapter)
        else:
            vector = self._mind.embedding(prompt, adapter, None)
        shown = pooling.encoded(vector, encoding)
        return [shown] * prompt.length if task.startswith("token") else shown

    async def _classify(self, request: web.Request) -> web.Response:
        body, model, adapter = await self._read(request)
        inputs = pooling.read_inputs(body, self._serving.setup)
        tokens = await self._compute("classify", request, body, adapter, inputs)
        data = [
            pooling.classified(index, self._mind.probabilities(prompt, adapter))
            for index, prompt in enumerate(inputs)
        ]
        return answer(pooling.listed("classify", model, data, tokens))

    async def _score(self, request: web.Request) -> web.Response:
        body, model, adapter = await self._read(request)
        left, right = pooling.read_pairs(body)
        joined = [_joined(one, other) for one, other in zip(left, right, strict=True)]
        tokens = await self._compute("score", request, body, adapter, joined)
        data = [
            {
                "index": index,
                "object": "score",
                "score": pooling.finite(self._mind.score(one, other, adapter)),
            }
            for index, (one, other) in enumerate(zip(left, right, strict=True))
        ]
        return answer(pooling.listed("score", model, data, tokens))

    async def _rerank(self, request: web.Request) -> web.Response:
        body, model, adapter = await self._read(request)
        query, documents, top = pooling.read_rerank(body)
        joined = [_joined(query, document) for document in documents]
        tokens = await self._compute("rerank", request, body, adapter, joined)
        scores = [self._mind.score(query, document, adapter) for document in documents]
        return answer(pooling.reranked(model, documents, scores, top, tokens))

    async def _read(self, request: web.Request) -> tuple[Json, str, str]:
        """Body, model and adapter."""
        body = await read_json(request)
        model, adapter = self._serving.adapters.resolve(body.get("model"))
        if self._serving.setup.knobs.fault.name == "error-500":
            raise RequestError(500, "InternalServerError", "simulated failure")
        return body, model, adapter

    async def _compute(
        self,
        endpoint: str,
        request: web.Request,
        body: Json,
        adapter: str,
        inputs: Sequence[Prompt],
    ) -> int:
        """Run the prompts; returns how many tokens they have."""
        arguments = self._serving.setup.arguments
        priority = checked_priority(body, priority_of(request), arguments)
        for prompt in inputs:
            check_length(prompt.length, arguments)
        self._mind.wrong = self._serving.wrong
        await self._serving.compute(
            [
                Work(
                    endpoint,
                    prompt.token_ids,
                    adapter=adapter,
                    priority=priority,
                    generates=False,
                )
                for prompt in inputs
            ]
        )
        return sum(prompt.length for prompt in inputs)


def _joined(one: Prompt, other: Prompt) -> Prompt:
    """Two texts as the one prompt that a cross-encoder reads."""
    return Prompt(f"{one.text}\n{other.text}", one.token_ids + other.token_ids)
