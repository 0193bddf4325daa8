import json
from typing import Any

import pytest

from warmpod.sidecar.answers import (
    Answer,
    InvalidAnswerError,
    StreamReader,
    read_answer,
    read_whole,
)
from warmpod.sidecar.planning import Endpoint

USAGE = {"prompt_tokens": 5, "completion_tokens": 1}


def whole(choice: dict[str, Any] | None, **more: Any) -> str:
    return json.dumps({"choices": [] if choice is None else [choice], **more})


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (whole({"text": "hi"}), Answer(True, None)),
        (whole({"message": {"content": "hi"}}, usage=USAGE), Answer(True, 5, 1)),
        (whole({"message": {"content": None, "reasoning_content": "hm"}}), Answer(True, None)),
        (whole({"message": {"content": "", "reasoning": "hm"}}), Answer(True, None)),
        (whole({"text": ""}, usage=USAGE), Answer(False, 5, 1)),
    ],
)
def test_whole_answers(body: str, answer: Answer) -> None:
    assert read_whole(body) == answer


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "no list of choices"),
        (whole(None), "no choices"),
        (whole({"text": ""}), "no token"),
        (whole({"message": {"content": None}}, usage={"completion_tokens": 0}), "no token"),
        (whole({"message": "hi"}), "message is not an object"),
        (whole({"text": ""}, usage={"completion_tokens": "1"}), "no token"),
        (json.dumps({"error": {"message": "engine is dead"}}), "engine is dead"),
    ],
)
def test_whole_answers_that_do_not_count(body: str, why: str) -> None:
    with pytest.raises(InvalidAnswerError, match=why):
        read_whole(body)


def stream(*chunks: dict[str, Any], done: bool = True) -> StreamReader:
    reader = StreamReader()
    for chunk in chunks:
        reader.feed(f"data: {json.dumps(chunk)}\n")
        reader.feed("\n")
    if done:
        reader.feed("data: [DONE]\n")
    return reader


ROLE = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
TOKEN = {"choices": [{"delta": {"content": "hi"}}]}
SILENT = {"choices": [{"delta": {"content": ""}}]}


def test_stream() -> None:
    reader = stream(ROLE, TOKEN, {"choices": [], "usage": USAGE})
    assert reader.finish() == Answer(True, 5, 1)
    assert stream({"choices": [{"text": "hi"}]}).finish() == Answer(True, None)
    assert stream(ROLE, SILENT).finish() == Answer(False, None)


def test_role_is_no_token() -> None:
    reader = stream(ROLE)
    assert not reader.tokens
    with pytest.raises(InvalidAnswerError, match="no token"):
        reader.finish()


def test_cut_stream_and_error_in_the_stream() -> None:
    with pytest.raises(InvalidAnswerError, match="cut"):
        stream(TOKEN, done=False).finish()
    with pytest.raises(InvalidAnswerError, match="engine is dead"):
        stream({"error": {"message": "engine is dead"}})


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("embeddings", {"data": [{"embedding": [0.5, -1]}, {"embedding": [0.0]}]}),
        ("embeddings", {"data": [{"embedding": "AACAPw=="}]}),
        ("pooling", {"data": [{"data": [[0.5], [0.25, 1]]}]}),
        ("classify", {"data": [{"label": "x", "probs": [0.5, 0.5]}]}),
        ("score", {"data": [{"score": 0}]}),
        ("rerank", {"results": [{"relevance_score": -3.5, "document": {}}]}),
        ("transcription", {"text": ""}),
    ],
)
def test_answers_without_tokens(endpoint: Endpoint, body: dict[str, Any]) -> None:
    assert read_answer(endpoint, json.dumps(body)) == Answer(True, None)


def test_prompt_tokens_of_answers_without_tokens() -> None:
    body = json.dumps({"data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": 7}})
    assert read_answer("embeddings", body) == Answer(True, 7)


@pytest.mark.parametrize(
    ("endpoint", "body", "why"),
    [
        ("embeddings", '{"data": []}', "no data"),
        ("embeddings", '{"data": [{"embedding": []}]}', "without embedding"),
        ("embeddings", '{"data": [{"embedding": ""}]}', "without embedding"),
        ("embeddings", '{"data": [{"embedding": [1, NaN]}]}', "nan"),
        ("embeddings", '{"data": [{"embedding": [Infinity]}]}', "inf"),
        ("embeddings", '{"data": [{"embedding": [null]}]}', "None, which is no number"),
        ("embeddings", '{"data": [3]}', "without embedding"),
        ("embeddings", '{"error": {"message": "dead"}}', "dead"),
        ("classify", '{"data": [{"probs": [true]}]}', "no number"),
        ("score", '{"data": [{"score": NaN}]}', "nan"),
        ("score", '{"data": [{"score": null}]}', "without score"),
        ("rerank", '{"results": [{"relevance_score": "x y"}], "data": []}', "no number"),
        ("rerank", "{}", "no results"),
        ("transcription", '{"text": null}', "no text"),
        ("transcription", "hello", "not JSON"),
    ],
)
def test_answers_without_tokens_that_do_not_count(endpoint: Endpoint, body: str, why: str) -> None:
    with pytest.raises(InvalidAnswerError, match=why):
        read_answer(endpoint, body)
