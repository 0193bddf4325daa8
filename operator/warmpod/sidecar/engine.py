"""HTTP client of the engine beside us."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import aiohttp

from warmpod.sidecar.answers import Answer, InvalidAnswerError, StreamReader, excerpt, read_whole
from warmpod.sidecar.plan import Endpoint

# Lets warm-up requests be told from users' in logs and by proxies.
WARMUP_HEADER = {"X-Warmpod-Warmup": "true"}

PATHS: Mapping[Endpoint, str] = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}

# Seconds for what costs the engine nothing to answer.
LOOK_SECONDS = 5.0

# Counters that move while the engine works for anybody. Not the number of finished requests: it
# counts aborted ones, our own among them.
PROGRESS_COUNTERS = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")

REMEDIES = {
    401: "; give the key in spec.engine.env VLLM_API_KEY, so that the sidecar can read it too",
}


class EngineError(Exception):
    """A request without a valid answer. `status` is None when there was no HTTP answer at all."""

    def __init__(self, text: str, status: int | None = None, body: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.body = body


class EngineTimeoutError(EngineError):
    """No complete answer in time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Times in seconds from sending the request; without streaming the first token comes last."""

    first_token: float
    total: float
    answer: Answer
    # Median time between two tokens after the first; None where the answer shows none.
    inter_token: float | None = None


class Engine:
    def __init__(self, base_url: str, api_key: str | None, tls_verify: bool) -> None:
        headers = dict(WARMUP_HEADER)
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._base_url = base_url
        # A limit on connections would make concurrent requests wait for each other here.
        connector = aiohttp.TCPConnector(limit=0, ssl=tls_verify)
        self._session = aiohttp.ClientSession(headers=headers, connector=connector)

    async def close(self) -> None:
        await self._session.close()

    async def answers(self) -> bool:
        """Whether the HTTP server is up and does not report its engine as dead.

        404 counts: another engine than vLLM may have no /health."""
        try:
            status, _ = await self._get("/health")
        except EngineError:
            return False
        return status in (200, 404)

    async def models(self) -> list[Mapping[str, Any]]:
        status, body = await self._get("/v1/models")
        if status != 200:
            raise _refusal("/v1/models", status, body)
        try:
            data = json.loads(body)["data"]
            return [dict(entry) for entry in data]
        except (ValueError, TypeError, KeyError) as error:
            raise EngineError(f"/v1/models: not a list of models: {excerpt(body)}") from error

    async def version(self) -> str:
        """Empty when the engine does not tell."""
        try:
            status, body = await self._get("/version")
            return str(json.loads(body)["version"]) if status == 200 else ""
        except (EngineError, ValueError, TypeError, KeyError):
            return ""

    async def progress(self) -> float | None:
        """A number that grows while the engine works for anybody; None when it cannot be read."""
        try:
            status, body = await self._get("/metrics")
        except EngineError:
            return None
        try:
            return sum_of_counters(body) if status == 200 else None
        except (ValueError, IndexError):
            return None

    async def generate(
        self,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        timeout_seconds: float,
        on_token: Callable[[], None] = lambda: None,
    ) -> Reply:
        """Raises EngineError. `on_token` is called for every sign of life in the answer."""
        path = PATHS[endpoint]
        started = time.perf_counter()
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._session.post(
                    self._base_url + path, json=body, timeout=aiohttp.ClientTimeout(total=None)
                ) as answer,
            ):
                if answer.status != 200:
                    raise _refusal(path, answer.status, await answer.text())
                if body.get("stream"):
                    return await _read_stream(answer, started, on_token)
                read = read_whole(await answer.text())
        except TimeoutError as error:
            raise EngineTimeoutError(f"{path}: no answer in {timeout_seconds:.0f} s") from error
        except InvalidAnswerError as error:
            raise EngineError(f"{path}: 200, but {error}", 200) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineError(f"{path}: {error!r}") from error
        on_token()
        total = time.perf_counter() - started
        return Reply(total, total, read)

    async def _get(self, path: str) -> tuple[int, str]:
        try:
            async with (
                asyncio.timeout(LOOK_SECONDS),
                self._session.get(self._base_url + path) as answer,
            ):
                return answer.status, await answer.text()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineError(f"{path}: {error!r}") from error


async def _read_stream(
    answer: aiohttp.ClientResponse, started: float, on_token: Callable[[], None]
) -> Reply:
    reader = StreamReader()
    seen: list[float] = []
    async for line in answer.content:
        before = reader.tokens
        reader.feed(line.decode(errors="replace"))
        if reader.tokens > before:
            seen.append(time.perf_counter() - started)
        if reader.tokens:
            on_token()
    read = reader.finish()
    gaps = [later - earlier for earlier, later in itertools.pairwise(seen)]
    total = time.perf_counter() - started
    return Reply(seen[0], total, read, median(gaps) if gaps else None)


def sum_of_counters(page: str) -> float:
    """Add up the counters that show progress, over all their labels. Raises ValueError and
    IndexError for a page that is none of vLLM's."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in page.splitlines()
        if line.startswith(PROGRESS_COUNTERS)
    )


def _refusal(path: str, status: int, body: str) -> EngineError:
    return EngineError(f"{path}: {status} {excerpt(body)}{REMEDIES.get(status, '')}", status, body)
