"""Ten thousand generated engines and settings: every plan can be played."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeVar

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from support.generated import generated
from unit.sidecar.planning.served import BOTH
from warmpod.api.warmup import Prefix, Warmup
from warmpod.engine import EngineTraits
from warmpod.sidecar.planning import (
    Plan,
    Served,
    TokenCost,
    UserPrompt,
    candidates,
    make_plan,
    waves_for,
)
from warmpod.sidecar.planning.model import ENDPOINTS, Bucket
from warmpod.sidecar.planning.sizes import Sizes

PREFIXES = (Prefix(name="a", text="one two three"), Prefix(name="b", text="word " * 500))
PROMPTS = ((), (UserPrompt("p", "one two"), UserPrompt("q", body={"input": "three"})))
# All that an engine could refuse, so that no plan needs to be made twice.
EVERY_TRAIT = EngineTraits(tool_parser="hermes", auto_tool_choice=True)
OPTIONAL = frozenset(
    bucket.name
    for bucket in candidates(Served("m", None, BOTH, traits=EVERY_TRAIT), Warmup(prefixes=PREFIXES))
)


T = TypeVar("T")


class Digits:
    """Choices out of one number: hypothesis draws numbers much faster than nested structures."""

    def __init__(self, number: int) -> None:
        self._rest = number

    def below(self, bound: int) -> int:
        self._rest, digit = divmod(self._rest, bound)
        return digit

    def of(self, *choices: T) -> T:
        return choices[self.below(len(choices))]

    def size(self, largest: int) -> int:
        """From 1; small ones are as frequent as large ones."""
        return 1 + self.below(min(largest, 1 << (1 + self.below(largest.bit_length()))))


def an_engine(digits: Digits) -> Served:
    chosen = [e for e in ENDPOINTS if digits.below(4) == 0] or [digits.of(*ENDPOINTS)]
    per_word = 0.2 + digits.below(60) / 10
    traits = EngineTraits(
        max_num_batched_tokens=digits.of(None, digits.size(200_000)),
        max_num_seqs=digits.of(None, digits.size(5000)),
        tool_parser=digits.of(None, "hermes"),
        auto_tool_choice=True,
        reasoning_parser=digits.of(None, "qwen3"),
        speculative=digits.of(True, False),
    )
    return Served(
        model="m",
        max_model_len=digits.of(None, digits.size(64), digits.size(300_000)),
        costs={endpoint: TokenCost(per_word, digits.below(60)) for endpoint in chosen},
        adapters=digits.of((), ("sql", "org/b")),
        traits=traits,
        features=digits.of(frozenset[str](), OPTIONAL),
        token_ids=digits.of((), (5, 6, 7)),
        answer_tokens=digits.of(None, None, 1),
    )


def a_warmup(digits: Digits) -> Warmup:
    return Warmup(
        prompt_tokens=digits.of((), (digits.size(1_048_576), digits.size(64))),
        concurrency=digits.of((), (digits.size(1024), digits.size(8))),
        skip=digits.of((), (), ("sampler/*", "*/c1"), ("*",), ("chat/*", "*p16*")),
        prefixes=digits.of((), PREFIXES),
    )


NUMBERS = st.integers(0, 2**256).map(Digits)


@pytest.mark.parametrize("part", range(4))  # so that they spread over processors
def test_every_plan_can_be_played(part: int) -> None:
    @seed(part)
    @generated(2500)
    @given(NUMBERS)
    def holds(digits: Digits) -> None:
        served, warmup = an_engine(digits), a_warmup(digits)
        plan = make_plan(served, warmup, digits.of(*PROMPTS))
        names = [bucket.name for bucket in plan.buckets]
        assert len(set(names)) == len(names)
        assert 1 <= len(names) <= 80
        skipped = [name for name in names if any(fnmatchcase(name, p) for p in warmup.skip)]
        assert not skipped or len(names) == 1
        fits = any(Sizes(served, endpoint).fits for endpoint in served.costs)
        for bucket in plan.buckets:
            assert_it_can_be_played(bucket, served, fits)

    holds()


def assert_it_can_be_played(bucket: Bucket, served: Served, fits: bool) -> None:
    """`fits`: there is a prompt that the context holds; without, the engine is to say so."""
    assert bucket.endpoint in served.costs
    assert 1 <= bucket.concurrency <= 1024
    assert 1 <= len(bucket.waves) <= 6
    for wave in bucket.waves:
        for ask in wave:
            assert ask.answer_tokens <= 64
            if served.max_model_len is not None and fits and ask.text:
                texts = max(1, ask.text.items)
                assert ask.prompt_tokens / texts + ask.answer_tokens <= served.max_model_len


@given(NUMBERS)
def test_a_plan_depends_on_nothing_but_what_it_is_made_from(digits: Digits) -> None:
    served, warmup = an_engine(digits), a_warmup(digits)
    plan = make_plan(served, warmup)
    other_order = replace(served, costs=dict(reversed(served.costs.items())))
    assert make_plan(other_order, warmup).buckets == plan.buckets
    assert plan.without(plan.names).buckets == ()
    assert plan.without(Plan(plan.buckets[1:]).names).buckets == plan.buckets[:1]


@given(NUMBERS)
def test_bodies_are_as_long_as_was_reckoned(digits: Digits) -> None:
    served = an_engine(digits)
    warmup = Warmup(
        prompt_tokens=(digits.size(300), digits.size(50)),
        concurrency=(1,),
        skip=("image/*", "transcription/*"),
    )
    for bucket in make_plan(served, warmup).buckets:
        for wave, bodies in zip(bucket.waves, waves_for(bucket), strict=True):
            assert len(bodies) == sum(ask.count for ask in wave)
            assert all(body["model"] in ("m", "sql", "org/b") for body in bodies)
            prompt, text = bodies[0].get("prompt"), wave[0].text
            if prompt is not None and text is not None:
                size = len(prompt) if isinstance(prompt, list) else len(prompt.split())
                assert size == text.size
