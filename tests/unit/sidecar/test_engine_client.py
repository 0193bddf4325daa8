"""The HTTP client, against a small server that says what it was asked."""

import itertools
import json
from typing import Any

import pytest

from unit.sidecar.answering import Server
from warmpod.sidecar.engine import (
    LONGEST_ANSWER,
    PATHS,
    WARMUP_PRIORITY,
    AnswerTooLongError,
    Engine,
    EngineError,
    read_counters,
)
from warmpod.sidecar.planning import Endpoint, plain_body

ANSWERS: dict[Endpoint, Any] = {
    "embeddings": {"data": [{"embedding": [1.0]}]},
    "pooling": {"data": [{"data": [1.0]}]},
    "classify": {"data": [{"probs": [1.0]}]},
    "score": {"data": [{"score": 1.0}]},
    "rerank": {"results": [{"relevance_score": 1.0}]},
}


@pytest.mark.parametrize("endpoint", ANSWERS)
async def test_each_endpoint_has_its_path_and_its_body(
    endpoint: Endpoint, server: Server, engine: Engine
) -> None:
    server.answers[PATHS[endpoint]] = json.dumps(ANSWERS[endpoint])
    body = plain_body(endpoint, "tiny", 3, 1, stream=True)
    seen: list[None] = []
    reply = await engine.generate(endpoint, body, 10, lambda: seen.append(None))
    assert reply.answer.has_text
    assert len(seen) == 1
    ((path, headers, sent),) = server.requests
    assert path == PATHS[endpoint]
    assert headers["X-Warmpod-Warmup"] == "true"
    assert headers["Authorization"] == "Bearer secret"
    assert json.loads(sent) == body


async def test_a_sound_is_sent_as_a_form(server: Server, engine: Engine) -> None:
    server.answers[PATHS["transcription"]] = '{"text": "hm"}'
    body = plain_body("transcription", "tiny", 3, 1, stream=False)
    assert (await engine.generate("transcription", body, 10)).answer.has_text
    ((_, headers, sent),) = server.requests
    assert headers["Content-Type"].startswith("multipart/form-data")
    assert b'name="file"; filename="a.wav"' in sent
    assert b"RIFF" in sent
    assert b'name="model"\r\n\r\ntiny' in sent


@pytest.mark.parametrize(
    ("priority", "own", "sent"), [(None, None, None), (WARMUP_PRIORITY, None, 100), (100, 3, 3)]
)
async def test_our_requests_come_last_where_priorities_count(
    priority: int | None, own: int | None, sent: int | None, server: Server
) -> None:
    server.answers[PATHS["completion"]] = '{"choices": [{"text": "x"}]}'
    engine = Engine(server.url, None, tls_verify=False, priority=priority)
    body = {"prompt": "x"} | ({"priority": own} if own is not None else {})
    await engine.generate("completion", body, 10)
    await engine.close()
    assert json.loads(server.requests[0][2]).get("priority") == sent


@pytest.mark.parametrize(("idle_seconds", "connections"), [(0.1, 1), (4.0, 2)])
async def test_a_connection_that_vllm_may_be_closing_is_not_used_again(
    idle_seconds: float,
    connections: int,
    server: Server,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = itertools.count(0.0, idle_seconds)
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: next(ticks))
    server.answers["/health"] = ""
    await engine.answers()
    await engine.answers()
    assert len(server.ports) == connections


async def test_an_invalid_answer_is_an_error(server: Server, engine: Engine) -> None:
    server.answers[PATHS["embeddings"]] = '{"data": [{"embedding": [NaN]}]}'
    with pytest.raises(EngineError, match="/v1/embeddings: 200, but embedding holds nan"):
        await engine.generate("embeddings", {}, 10)


@pytest.mark.parametrize("page", [None, "?", "[]", '{"paths": null}'])
async def test_routes_that_are_not_told(page: str | None, server: Server, engine: Engine) -> None:
    if page is not None:
        server.answers["/openapi.json"] = page
    assert await engine.routes() is None


async def test_routes(server: Server, engine: Engine) -> None:
    server.answers["/openapi.json"] = '{"paths": {"/health": {}, "/v1/score": {}}}'
    assert await engine.routes() == {"/health", "/v1/score"}


async def test_token_ids(server: Server, engine: Engine) -> None:
    assert await engine.token_ids("tiny", "a b") == ()
    server.answers["/tokenize"] = '{"tokens": "x"}'
    assert await engine.token_ids("tiny", "a b") == ()
    server.answers["/tokenize"] = '{"tokens": [5, 6, 5]}'
    assert await engine.token_ids("tiny", "a b") == (5, 6)
    asked = {"model": "tiny", "prompt": "a b", "add_special_tokens": False}
    assert json.loads(server.requests[-1][2]) == asked


PAGE = (
    "# TYPE vllm:generation_tokens_total counter\n"
    'vllm:generation_tokens_total{engine="0",model_name="a b"} 5.0\n'
    'vllm:generation_tokens_total{engine="1",model_name="a b"} 7.0\n'
    'vllm:prompt_tokens_total{engine="0"} 1e+02\n'
    'vllm:num_requests_running{engine="0"} 2.0\n'
    'vllm:num_requests_waiting{engine="0"} 1.0\n'
    'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1.0\n'
    'vllm:prefix_cache_queries_total{engine="0"} 64.0\n'
    "vllm:prefix_cache_hits_total 32\n"
    'vllm:request_success_total{engine="0"} 9.0\n'
)


def test_counters_are_added_up_over_labels() -> None:
    assert read_counters(PAGE) == {
        "generation_tokens": 12.0,
        "prompt_tokens": 100.0,
        "prefix_cache_queries": 64.0,
        "prefix_cache_hits": 32.0,
    }


@pytest.mark.parametrize("page", ["", "hello", "vllm:prompt_tokens_total x", "vllm:prompt_tokens"])
def test_pages_without_counters(page: str) -> None:
    assert read_counters(page) == {}


async def test_progress(server: Server, engine: Engine) -> None:
    assert await engine.progress() is None
    assert await engine.counters() == {}
    server.answers["/metrics"] = PAGE
    assert await engine.progress() == 112


async def test_answer_that_the_memory_does_not_hold_is_refused(
    server: Server, engine: Engine
) -> None:
    server.answers = {PATHS["pooling"]: "[" * (LONGEST_ANSWER + 1), "/metrics": "x"}
    with pytest.raises(AnswerTooLongError) as raised:
        await engine.generate("pooling", {}, 10)
    assert raised.value.refused
