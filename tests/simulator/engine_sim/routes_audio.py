"""/v1/audio/transcriptions."""

from __future__ import annotations

import hashlib
import io
import math
import time
import uuid
import wave
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web

from engine_sim.engine import Progress, Work
from engine_sim.errors import Json, RequestError, bad, malformed, missing
from engine_sim.serving import Serving, answer, end_stream, event_stream, send
from engine_sim.words import Draws

FORMATS = ("json", "text", "verbose_json")
WORDS_A_SECOND = 2
PROMPT_TOKENS = (1, 2, 3, 4)


class AudioRoutes:
    """What a transcribing model serves."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def routes(self) -> list[web.RouteDef]:
        """One."""
        return [web.post("/v1/audio/transcriptions", self._transcribe)]

    async def _transcribe(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        sound = form.get("file")
        if not isinstance(sound, web.FileField):
            raise missing("file", dict(form))
        model, adapter = self._serving.adapters.resolve(form.get("model"))
        wanted = str(form.get("response_format") or "json")
        if wanted not in FORMATS:
            raise malformed("literal_error", "response_format", "Input should be 'json'", wanted)
        if self._serving.setup.knobs.fault.name == "error-500":
            raise RequestError(500, "InternalServerError", "simulated failure")
        data = sound.file.read()
        seconds = duration(data)
        words = self._words(data, adapter, seconds, form)
        work = Work("transcription", PROMPT_TOKENS, adapter=adapter, max_tokens=len(words) + 1)
        self._serving.engine.admit()
        if str(form.get("stream", "")).lower() == "true":
            return await self._stream(request, work, model, words)
        async for _step in self._serving.engine.steps(work, len(words), Progress()):
            pass
        text = "".join(words).strip()
        if wanted == "text":
            return web.Response(text=text)
        return answer(_verbose(text, seconds) if wanted == "verbose_json" else _body(text, seconds))

    def _words(
        self, data: bytes, adapter: str, seconds: float, form: Mapping[str, Any]
    ) -> list[str]:
        """The words of a sound: a function of model, adapter, sound and language."""
        wrong = "wrong " if self._serving.wrong else ""
        sound = hashlib.sha256(data).hexdigest()
        key = f"{wrong}{self._serving.setup.arguments.model}\n{adapter}\n{sound}"
        draws = Draws(f"{key}\n{form.get('language') or 'en'}")
        return [f" {word}" for word in draws.words(max(1, round(seconds * WORDS_A_SECOND)))]

    async def _stream(
        self, request: web.Request, work: Work, model: str, words: list[str]
    ) -> web.StreamResponse:
        response = await event_stream(request)
        chunks = _chunks(model, words)
        async for _step in self._serving.engine.steps(work, len(words), Progress()):
            await send(response, next(chunks))
        await end_stream(response)
        return response


def duration(data: bytes) -> float:
    """Seconds of a WAV file. Raises RequestError for anything else: nothing here decodes it."""
    try:
        with wave.open(io.BytesIO(data)) as sound:
            return float(sound.getnframes() / sound.getframerate())
    except (wave.Error, EOFError, ZeroDivisionError) as broken:
        raise bad("Invalid or unsupported audio file.") from broken


def _body(text: str, seconds: float) -> Json:
    return {"text": text, "usage": {"type": "duration", "seconds": math.ceil(seconds)}}


def _verbose(text: str, seconds: float) -> Json:
    segment: Json = {
        "id": 0,
        "avg_logprob": -0.1,
        "compression_ratio": 1.0,
        "end": seconds,
        "no_speech_prob": None,
        "seek": 0,
        "start": 0.0,
        "temperature": 0.0,
        "text": text,
        "tokens": [],
    }
    return {
        "duration": seconds,
        "language": "en",
        "text": text,
        "segments": [segment],
        "words": None,
    }


def _chunks(model: str, words: list[str]) -> Iterator[Json]:
    key = f"trsc-{uuid.uuid4().hex}"
    created = int(time.time())
    for number, word in enumerate(words, 1):
        choice: Json = {"delta": {"content": word}}
        if number == len(words):
            choice |= {"finish_reason": "stop", "stop_reason": None}
        yield {
            "id": key,
            "object": "transcription.chunk",
            "created": created,
            "model": model,
            "choices": [choice],
        }
