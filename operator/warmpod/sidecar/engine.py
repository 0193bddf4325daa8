"""HTTP client of the engine beside us."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import aiohttp

from warmpod.sidecar.answers import (
    Answer,
    InvalidAnswerError,
    StreamReader,
    excerpt,
    read_answer,
    read_document,
    tokens_of,
)
from warmpod.sidecar.planning import Endpoint

# Lets warm-up requests be told from users' in logs and by proxies.
WARMUP_HEADER = {"X-Warmpod-Warmup": "true"}

PATHS: Mapping[Endpoint, str] = {
    "chat": "/v1/chat/completions",
    "completion": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "pooling": "/pooling",
    "classify": "/classify",
    "score": "/v1/score",
    "rerank": "/v1/rerank",
    "transcription": "/v1/audio/transcriptions",
}

# Lower is served first in vLLM, and users' requests have 0. Anything but 0 is refused by an engine
# that does not schedule by priority.
WARMUP_PRIORITY = 100

# Seconds after which an idle connection is not used again. vLLM closes one after 5 s
# (VLLM_HTTP_TIMEOUT_KEEP_ALIVE): a request sent on it at that moment is lost.
IDLE_CONNECTION_SECONDS = 2.0

# Seconds for what costs the engine nothing to answer.
LOOK_SECONDS = 5.0

# Names of counters() and of vLLM's metrics. Not the number of finished requests: it counts aborted
# ones, our own among them.
COUNTERS = {
    "generation_tokens": "vllm:generation_tokens_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
}

# Of these, the ones that move while the engine works for anybody.
PROGRESS = ("generation_tokens", "prompt_tokens")

# The engine understood, and does not do that. Not: unauthorized, overloaded, broken.
REFUSALS = (400, 404, 405, 415, 422, 501)

REMEDIES = {
    401: "; give the key in spec.engine.env VLLM_API_KEY, so that the sidecar can read it too",
}

# Bytes. The longest that counts is a batch of embeddings; the container has 128 MiB for all.
LONGEST_ANSWER = 8 * 1024 * 1024


class EngineError(Exception):
    """A request without a valid answer. `status` is None when there was no HTTP answer at all."""

    def __init__(self, text: str, status: int | None = None, body: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.body = body

    @property
    def refused(self) -> bool:
        """Whether users get the same answer from the best of engines of this kind."""
        return self.status in REFUSALS


class AnswerTooLongError(EngineError):
    """More than fits into the sidecar's memory."""

    @property
    def refused(self) -> bool:
        return True


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


# Made for each request, around it; what it yields takes the answer.
Counted = Callable[[bool], AbstractContextManager[Callable[[Reply], None]]]


@contextmanager
def _uncounted(_canary: bool) -> Iterator[Callable[[Reply], None]]:
    yield lambda reply: None


class Engine:
    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        tls_verify: bool,
        priority: int | None = None,
        counted: Counted | None = None,
    ) -> None:
        """`priority` goes into every request that does not have one of its own. `counted` is put
        around each request; True stands for one whose latency is not looked at."""
        headers = dict(WARMUP_HEADER)
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._base_url = base_url
        self._priority = priority
        self._counted = counted or _uncounted
        # A limit on connections would make concurrent requests wait for each other here.
        connector = aiohttp.TCPConnector(
            limit=0, ssl=tls_verify, keepalive_timeout=IDLE_CONNECTION_SECONDS
        )
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
            raise refusal("/v1/models", status, body)
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

    async def routes(self) -> frozenset[str] | None:
        """Paths of the API; None when the engine does not tell (--disable-fastapi-docs)."""
        try:
            status, body = await self._get("/openapi.json")
            return frozenset(json.loads(body)["paths"]) if status == 200 else None
        except (EngineError, ValueError, TypeError, KeyError):
            return None

    async def token_ids(self, model: str, text: str) -> tuple[int, ...]:
        """Ids of the tokens of a text, each once; none when the engine does not tell."""
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        try:
            async with (
                asyncio.timeout(LOOK_SECONDS),
                self._session.post(self._base_url + "/tokenize", json=body) as answer,
            ):
                found = json.loads(await _text(answer))["tokens"] if answer.status == 200 else []
                return tuple(dict.fromkeys(token for token in found if type(token) is int))
        except (EngineError, aiohttp.ClientError, OSError, ValueError, TypeError, KeyError):
            return ()

    async def counters(self) -> Mapping[str, float]:
        """What the engine counts, by the names of COUNTERS, over all its labels; without what it
        does not tell."""
        return read_counters(await self.metrics())

    async def metrics(self) -> str:
        """The page; empty when it cannot be read."""
        try:
            status, body = await self._get("/metrics")
        except EngineError:
            return ""
        return body if status == 200 else ""

    async def progress(self) -> float | None:
        """A number that grows while the engine works for anybody; None when it cannot be read."""
        found = await self.counters()
        return sum(found[name] for name in PROGRESS if name in found) if found else None

    async def generate(
        self,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        timeout_seconds: float,
        on_token: Callable[[], None] = lambda: None,
        *,
        canary: bool = False,
    ) -> Reply:
        """Raises EngineError. `on_token` is called for every sign of life in the answer."""
        with self._counted(canary) as answered:
            reply = await self._generate(endpoint, body, timeout_seconds, on_token)
            answered(reply)
        return reply

    async def _generate(
        self,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        timeout_seconds: float,
        on_token: Callable[[], None],
    ) -> Reply:
        started = time.perf_counter()
        async with self._post(endpoint, body, timeout_seconds) as answer:
            if body.get("stream"):
                return await _read_stream(answer, started, on_token)
            read = read_answer(endpoint, await _text(answer))
        on_token()
        total = time.perf_counter() - started
        return Reply(total, total, read)

    @asynccontextmanager
    async def _post(
        self, endpoint: Endpoint, body: Mapping[str, Any], timeout_seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer with status 200, to be read within the time. Raises EngineError for all else,
        and for an InvalidAnswerError of its reader."""
        path = PATHS[endpoint]
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._session.post(
                    self._base_url + path,
                    timeout=aiohttp.ClientTimeout(total=None),
                    **self._sent(endpoint, body),
                ) as answer,
            ):
                if answer.status != 200:
                    raise refusal(path, answer.status, await _text(answer))
                yield answer
        except TimeoutError as error:
            raise EngineTimeoutError(f"{path}: no answer in {timeout_seconds:.0f} s") from error
        except InvalidAnswerError as error:
            raise EngineError(f"{path}: 200, but {error}", 200) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineError(f"{path}: {error!r}") from error

    def _sent(self, endpoint: Endpoint, body: Mapping[str, Any]) -> dict[str, Any]:
        if endpoint == "transcription":
            form = aiohttp.FormData()
            for name, value in body.items():
                form.add_field(name, value, filename="a.wav" if name == "file" else None)
            return {"data": form}
        if self._priority is None:
            return {"json": body}
        return {"json": {"priority": self._priority, **body}}

    async def ask(
        self, endpoint: Endpoint, body: Mapping[str, Any], timeout_seconds: float
    ) -> Mapping[str, Any]:
        """The whole answer of a request without streaming, unjudged. Raises EngineError."""
        with self._counted(True) as answered:
            started = time.perf_counter()
            async with self._post(endpoint, body, timeout_seconds) as answer:
                found = read_document(await _text(answer))
            total = time.perf_counter() - started
            answered(Reply(total, total, tokens_of(found)))
        return found

    async def _get(self, path: str) -> tuple[int, str]:
        return await self.call("GET", path)

    async def call(
        self,
        method: str,
        path: str,
        timeout_seconds: float = LOOK_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """Status and body, whatever they are. Raises EngineError when there is no answer."""
        url = self._base_url + path
        # The time-out of the session is that of a client who downloads: five minutes.
        none = aiohttp.ClientTimeout(total=None)
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._session.request(method, url, headers=headers, timeout=none) as answer,
            ):
                return answer.status, await _text(answer)
        except TimeoutError as error:
            raise EngineTimeoutError(f"{path}: no answer in {timeout_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineError(f"{path}: {error!r}") from error


async def _text(answer: aiohttp.ClientResponse) -> str:
    """Raises AnswerTooLongError."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > LONGEST_ANSWER:
            raise AnswerTooLongError(
                f"{answer.url.path}: the answer has more than {LONGEST_ANSWER} bytes", answer.status
            )
    return body.decode(errors="replace")


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


def read_counters(page: str) -> dict[str, float]:
    """The values of a metrics page by the names of COUNTERS, added up over their labels."""
    names = {metric: name for name, metric in COUNTERS.items()}
    found: dict[str, float] = {}
    for line in page.splitlines():
        name = names.get(line.partition("{")[0].partition(" ")[0])
        if name is None:
            continue
        try:
            value = float(line.rpartition(" ")[2])
        except ValueError:
            continue
        found[name] = found.get(name, 0.0) + value
    return found


def refusal(path: str, status: int, body: str) -> EngineError:
    """An answer with another status than the wanted one."""
    return EngineError(f"{path}: {status} {excerpt(body)}{REMEDIES.get(status, '')}", status, body)
