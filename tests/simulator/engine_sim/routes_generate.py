"""/v1/completions and /v1/chat/completions."""

from __future__ import annotations

from aiohttp import web

from engine_sim.answers import choices_of
from engine_sim.chat_replies import ChatReply
from engine_sim.engine import Progress
from engine_sim.errors import EngineDeadError, RequestError, body_of
from engine_sim.replies import CompletionReply, Reply
from engine_sim.requests import GenerationRequest, read_request
from engine_sim.serving import (
    Serving,
    answer,
    end_stream,
    event_stream,
    priority_of,
    read_json,
    send,
)


class GenerateRoutes:
    """What a generating model serves."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._fault = serving.setup.knobs.fault.name

    def routes(self) -> list[web.RouteDef]:
        """A fault takes chat away."""
        found = [web.post("/v1/completions", self._completions)]
        if self._fault != "no-chat":
            found.append(web.post("/v1/chat/completions", self._chat))
        return found

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True)

    async def _generate(self, request: web.Request, chat: bool) -> web.StreamResponse:
        serving = self._serving
        body = await read_json(request)
        wanted = read_request(chat, body, serving.setup, serving.adapters, priority_of(request))
        if self._fault == "error-500":
            raise RequestError(500, "InternalServerError", "simulated failure")
        serving.engine.admit()
        progress = Progress()
        reply = self._reply(wanted)
        if wanted.stream:
            return await self._stream(request, reply, progress)
        async for _step in serving.engine.steps(wanted.work, reply.steps, progress):
            pass
        self._complete(reply, progress)
        return answer(reply.whole())

    def _reply(self, wanted: GenerationRequest) -> Reply:
        arguments = self._serving.setup.arguments
        kind = ChatReply if wanted.chat else CompletionReply
        return kind(
            wanted,
            choices_of(wanted, arguments.model, self._serving.wrong),
            shown=self._fault != "empty-content" or self._thinks_aloud(wanted),
            reasoning_tokens_told=wanted.chat and arguments.reasoning_parser is not None,
        )

    def _thinks_aloud(self, wanted: GenerationRequest) -> bool:
        """No parser takes the reasoning out of a completion."""
        return self._serving.setup.arguments.reasoning_parser is not None and not wanted.chat

    def _complete(self, reply: Reply, progress: Progress) -> None:
        """Put in what is known only after the engine ran."""
        if self._serving.setup.arguments.prompt_tokens_details:
            reply.cached_tokens = progress.cached_tokens
        reply.cut(progress.steps)

    async def _stream(
        self, request: web.Request, reply: Reply, progress: Progress
    ) -> web.StreamResponse:
        """Send the answer as server-sent events; an error after the first goes in the stream."""
        response = await event_stream(request)
        try:
            async for step in self._serving.engine.steps(reply.request.work, reply.steps, progress):
                if step == 0:
                    for chunk in reply.opening():
                        await send(response, chunk)
                for chunk in reply.chunks(step):
                    await send(response, chunk)
            for chunk in reply.ending(progress.steps):
                await send(response, chunk)
            self._complete(reply, progress)
            if reply.request.include_usage:
                await send(response, reply.usage_chunk())
        except EngineDeadError as dead:
            await send(response, body_of(500, "InternalServerError", str(dead)))
        await end_stream(response)
        return response
