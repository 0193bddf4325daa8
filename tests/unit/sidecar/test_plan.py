from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.sidecar.harness import WARMUP
from warmpod.sidecar.plan import LONGEST_PROMPT_SHARE, Served, TokenCost, make_plan, unsupported
from warmpod.sidecar.prompts import body_for

DEFAULTS = WARMUP.model_copy(update={"prompt_tokens": (16, 128), "concurrency": (1, 4)})
BOTH = Served("tiny", 2048, {"completion": TokenCost(1.0), "chat": TokenCost(1.0, 8.0)})


def test_default_plan() -> None:
    plan = make_plan(BOTH, DEFAULTS)
    names = [bucket.name for bucket in plan.buckets]
    assert len(names) == len(set(names)) == 32
    assert names[0] == "chat/stream/sampled/p16/c1"
    assert names[-1] == "completion/whole/greedy/p128/c4"
    assert plan.notes == ()


def test_without_chat_template_there_are_no_chat_buckets() -> None:
    served = Served("tiny", 2048, {"completion": TokenCost(1.0)}, ("chat is not served",))
    plan = make_plan(served, DEFAULTS)
    assert {bucket.endpoint for bucket in plan.buckets} == {"completion"}
    assert plan.notes == ("chat is not served",)


def test_prompts_that_are_too_long_are_cut_with_a_note() -> None:
    plan = make_plan(replace(BOTH, max_model_len=64), DEFAULTS)
    assert sorted({bucket.prompt_tokens for bucket in plan.buckets}) == [16, 48]
    assert "prompts of 128 tokens are cut to 48" in plan.notes[0]


def test_words_follow_from_what_a_word_costs() -> None:
    served = Served("tiny", 2048, {"chat": TokenCost(2.0, 20.0), "completion": TokenCost(2.0)})
    words = {
        (bucket.endpoint, bucket.prompt_tokens): bucket.words
        for bucket in make_plan(served, DEFAULTS).buckets
    }
    assert words == {
        ("chat", 16): 1,
        ("chat", 128): 54,
        ("completion", 16): 8,
        ("completion", 128): 64,
    }


@given(
    st.integers(1, 100_000),
    st.lists(st.integers(1, 10_000), min_size=1, max_size=5),
    st.lists(st.integers(1, 64), min_size=1, max_size=5),
    st.floats(0.2, 5),
)
def test_every_plan_fits_the_context(
    max_model_len: int, lengths: list[int], concurrency: list[int], per_word: float
) -> None:
    served = Served("m", max_model_len, {"completion": TokenCost(per_word)})
    warmup = replace(DEFAULTS, prompt_tokens=tuple(lengths), concurrency=tuple(concurrency))
    plan = make_plan(served, warmup)
    names = [bucket.name for bucket in plan.buckets]
    assert len(names) == len(set(names)) > 0
    for bucket in plan.buckets:
        assert bucket.words >= 1
        assert bucket.answer_tokens >= 1
        room = max(1, (max_model_len - bucket.answer_tokens) * LONGEST_PROMPT_SHARE)
        assert bucket.prompt_tokens <= room


def test_bodies() -> None:
    by_name = {bucket.name: bucket for bucket in make_plan(BOTH, DEFAULTS).buckets}
    chat = body_for(by_name["chat/stream/sampled/p16/c1"], "tiny")
    assert len(chat["messages"][0]["content"].split()) == 8
    assert chat["stream_options"] == {"include_usage": True}
    assert chat["temperature"] > 0
    completion = body_for(by_name["completion/whole/greedy/p128/c4"], "tiny")
    assert len(completion["prompt"].split()) == 128
    assert completion["temperature"] == 0
    assert "stream" not in completion


def test_no_two_prompts_are_alike() -> None:
    bucket = make_plan(BOTH, DEFAULTS).buckets[0]
    bodies = [str(body_for(bucket, "tiny")) for _ in range(100)]
    assert len(set(bodies)) == 100


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, "As of transformers v4.44, default chat template is no longer allowed", True),
        (400, "The model does not support Chat Completions API", True),
        (404, '{"detail":"Not Found"}', True),
        (405, "", True),
        (404, "The model `tiny` does not exist.", False),
        (400, "This model's maximum context length is 16 tokens", False),
        (401, "Unauthorized", False),
        (500, "no chat template today", False),
    ],
)
def test_unsupported(status: int, body: str, expected: bool) -> None:
    assert unsupported(status, body) is expected
