import json
from typing import Any

import pytest

from warmpod.sidecar.answers import Answer, InvalidAnswerError, StreamReader, read_whole

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
