"""Which lines are requests, and what is made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warmpod.load.bodies import ANSWER_TOKENS, BodyError, read

FIXED = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("body", "endpoint", "bound"),
    [
        ({"messages": []}, "chat", {"max_tokens": ANSWER_TOKENS}),
        ({"prompt": "x", "max_tokens": 4}, "completion", {"max_tokens": 4}),
        ({"messages": [], "max_completion_tokens": 4}, "chat", {"max_completion_tokens": 4}),
        ({"prompt": "x", "max_tokens": None}, "completion", {"max_tokens": ANSWER_TOKENS}),
        ({"messages": [], "model": "another", "stream": False}, "chat", {"max_tokens": 256}),
    ],
)
def test_a_body_is_streamed_and_bounded(
    body: dict[str, Any], endpoint: str, bound: dict[str, int]
) -> None:
    (request,) = read(json.dumps(body), "m")
    assert request.endpoint == endpoint
    assert request.body == {**body, **bound, **FIXED}


def test_empty_lines_are_none() -> None:
    assert len(read('\n{"prompt": "a"}\n\n{"prompt": "b"}\n', "m")) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\n", "there is no request"),
        ('{"prompt": "a"}\nnonsense', "line 2 is not JSON"),
        ('{"input": "embed me"}', "line 1 is no request body: it has none of messages, prompt"),
        ("[]", "line 1 is no request body"),
    ],
)
def test_what_is_no_request_is_named(text: str, why: str) -> None:
    with pytest.raises(BodyError, match=why):
        read(text, "m")
