import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.api.warmup import Golden
from warmpod.sidecar.golden import GoldenAnswer, check, read_answer, request_for

PARIS = GoldenAnswer("Paris is big", ("Paris", " is", " big"), (-0.1, -1.25, -0.5))


def golden(**fields: Any) -> Golden:
    return Golden(name="capital", prompt="The capital of France?", **fields)


def chat_answer(content: object, tokens: object = None, **message: object) -> dict[str, Any]:
    logprobs = None if tokens is None else {"content": tokens}
    return {"choices": [{"message": {"content": content, **message}, "logprobs": logprobs}]}


def completion_answer(text: object, tokens: object, logprobs: object) -> dict[str, Any]:
    found = {"tokens": tokens, "token_logprobs": logprobs}
    return {"choices": [{"text": text, "logprobs": found}]}


def test_request_for_a_chat_answer() -> None:
    item = golden(max_tokens=8, tokens=("Paris",))
    assert request_for(item, "tiny") == (
        "chat",
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "The capital of France?"}],
            "max_tokens": 8,
            "temperature": 0,
            "logprobs": True,
        },
    )


def test_request_for_a_completion() -> None:
    item = golden(endpoint="Completion", text="Paris", logprobs=("-0.1",))
    assert request_for(item, "tiny") == (
        "completion",
        {
            "model": "tiny",
            "prompt": "The capital of France?",
            "max_tokens": 16,
            "temperature": 0,
            "logprobs": 1,
        },
    )


def test_tokens_are_asked_for_only_where_they_are_checked() -> None:
    assert "logprobs" not in request_for(golden(text="Paris"), "tiny")[1]


@pytest.mark.parametrize(
    ("endpoint", "body", "answer"),
    [
        pytest.param(
            "chat",
            chat_answer("Paris is", [{"token": "Paris", "logprob": -0.1}, {"token": " is"}]),
            GoldenAnswer("Paris is", ("Paris", " is"), (-0.1, None)),
            id="chat",
        ),
        pytest.param("chat", chat_answer("Paris"), GoldenAnswer("Paris"), id="without logprobs"),
        pytest.param(
            "chat",
            chat_answer(None, reasoning_content="Let me"),
            GoldenAnswer("Let me"),
            id="nothing but reasoning",
        ),
        pytest.param(
            "chat", chat_answer("Paris", reasoning="Let me"), GoldenAnswer("Paris"), id="both"
        ),
        pytest.param("chat", chat_answer(None), GoldenAnswer(""), id="empty"),
        pytest.param(
            "completion",
            completion_answer("Paris is", ["Paris", " is"], [-0.1, -2]),
            GoldenAnswer("Paris is", ("Paris", " is"), (-0.1, -2.0)),
            id="completion",
        ),
        pytest.param(
            "completion",
            completion_answer("a b c d", ["a", " b", " c", " d"], [None, math.nan, -math.inf]),
            GoldenAnswer("a b c d", ("a", " b", " c", " d"), (None, None, None, None)),
            id="log probabilities that are none",
        ),
        pytest.param(
            "completion",
            {"choices": [{"text": "a", "logprobs": None}]},
            GoldenAnswer("a"),
            id="completion without logprobs",
        ),
    ],
)
def test_reading(endpoint: Any, body: object, answer: GoldenAnswer) -> None:
    assert read_answer(endpoint, body) == answer


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": "a"}, "logprobs": {"content": [5]}}]},
        {"choices": [{"message": {"content": "a"}, "logprobs": {"content": [{}]}}]},
        {
            "choices": [
                {
                    "message": {"content": "a"},
                    "logprobs": {"content": [{"token": "a", "logprob": 10**400}]},
                }
            ]
        },
    ],
)
def test_what_is_no_answer(body: object) -> None:
    with pytest.raises(ValueError, match="answer"):
        read_answer("chat", body)


@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        pytest.param({"text": "Paris"}, "", id="text"),
        pytest.param({"text": "Paris is big"}, "", id="all of the text"),
        pytest.param({"tokens": ("Paris", " is")}, "", id="tokens"),
        pytest.param({"text": "Paris", "logprobs": ("-0.1", "-1.45")}, "", id="just tolerable"),
        pytest.param(
            {"text": "Lyon"},
            'expected "Lyon", came "Paris is big" at character 1',
            id="another text",
        ),
        pytest.param(
            {"text": "Paris is small"},
            'expected "Paris is small", came "Paris is big" at character 10',
            id="a text that parts later",
        ),
        pytest.param(
            {"text": "Paris is bigger"},
            'expected "Paris is bigger", but the text ends after 12 characters',
            id="a shorter text",
        ),
        pytest.param(
            {"tokens": ("Paris", "is")},
            'expected token 2 "is", came " is"',
            id="another token",
        ),
        pytest.param(
            {"tokens": ("Paris", " is", " big", ".")},
            'expected token 4 ".", but the answer ends before it',
            id="fewer tokens",
        ),
        pytest.param(
            {"text": "Paris", "logprobs": ("-0.1", "-1.0")},
            "expected -1.0 as log probability of token 2, came -1.2500, which is more than 0.2 "
            "away",
            id="another log probability",
        ),
        pytest.param(
            {"text": "Paris", "logprobs": ("-0.1",) * 2, "logprob_tolerance": "2"},
            "",
            id="a wider tolerance",
        ),
        pytest.param(
            {"text": "Paris", "logprobs": ("-0.1", "-1.25", "-0.5", "-0.1")},
            "expected -0.1 as log probability of token 4, came none",
            id="fewer log probabilities",
        ),
    ],
)
def test_checking(fields: dict[str, Any], difference: str) -> None:
    expected = f"golden capital: {difference}" if difference else ""
    assert check(golden(**fields), PARIS) == expected


def test_an_answer_without_tokens_is_a_mismatch() -> None:
    assert check(golden(tokens=("Paris",)), GoldenAnswer("Paris")) == (
        'golden capital: expected the token "Paris" first, but the answer shows no tokens'
    )


def test_a_long_text_is_shown_where_it_differs() -> None:
    difference = check(
        golden(text="a" * 500 + "b" + "c" * 500), GoldenAnswer("a" * 501 + "c" * 500)
    )
    assert difference == (
        f'golden capital: expected "…{"a" * 20}b{"c" * 39}…", came "…{"a" * 21}{"c" * 39}…" at '
        "character 501"
    )


TOKENS = st.text(st.sampled_from("ab \n\u00e9"), min_size=1, max_size=3)
# Eighths: two of them are never just the tolerance apart, where floating point would be in doubt.
LOGPROBS = st.one_of(st.none(), st.integers(-160, 0).map(lambda n: n / 8), st.just(-9999.0))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "text", "logprobs", "tokens", "token", "logprob"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@st.composite
def answers(draw: st.DrawFn) -> GoldenAnswer:
    tokens = tuple(draw(st.lists(TOKENS, max_size=6)))
    logprobs = tuple(draw(LOGPROBS) for _ in tokens)
    return GoldenAnswer("".join(tokens), tokens, logprobs)


def item_of(answer: GoldenAnswer) -> Golden:
    """What would be recorded of an answer."""
    return Golden.model_construct(
        name="a",
        text=answer.text,
        tokens=answer.tokens,
        logprobs=tuple(f"{value or 0.0:.4f}" for value in answer.logprobs),
        logprob_tolerance="0.2",
    )


@given(answers(), answers())
def test_an_item_accepts_just_the_answers_that_begin_like_it(
    recorded: GoldenAnswer, other: GoldenAnswer
) -> None:
    count = len(recorded.tokens)
    same_tokens = other.tokens[:count] == recorded.tokens
    near = all(
        mine is not None and abs(mine - (theirs or 0.0)) <= 0.2
        for theirs, mine in zip(recorded.logprobs, other.logprobs, strict=False)
    )
    assert (check(item_of(recorded), other) == "") is (same_tokens and near)


@given(answers())
def test_an_item_accepts_the_answer_that_it_was_made_of(answer: GoldenAnswer) -> None:
    complete = None not in answer.logprobs
    assert (check(item_of(answer), answer) == "") is complete


@given(st.sampled_from(["chat", "completion"]), JSON)
def test_any_json_is_an_answer_or_is_refused(endpoint: Any, body: object) -> None:
    for wrapped in (body, {"choices": [body]}):
        try:
            answer = read_answer(endpoint, wrapped)
        except ValueError:
            continue
        assert isinstance(answer.text, str)
        assert len(answer.tokens) == len(answer.logprobs)
        assert all(value is None or math.isfinite(value) for value in answer.logprobs)


@given(answers(), st.booleans())
def test_reading_gives_back_what_the_engine_meant(answer: GoldenAnswer, chat: bool) -> None:
    if chat:
        content = [
            {"token": token, "logprob": value}
            for token, value in zip(answer.tokens, answer.logprobs, strict=True)
        ]
        body = chat_answer(answer.text, content)
    else:
        body = completion_answer(answer.text, answer.tokens, answer.logprobs)
    sent = json.loads(json.dumps(body))
    assert read_answer("chat" if chat else "completion", sent) == answer
