"""Which requests exercise an engine: what it serves and `spec.warmup` become buckets. Pure."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from warmpod.api.v1alpha1 import Warmup

Endpoint = Literal["chat", "completion"]
Sampling = Literal["greedy", "sampled"]

# The most used first, so that a warm-up that is cut short has done the most good.
ENDPOINTS: tuple[Endpoint, ...] = ("chat", "completion")
SAMPLINGS: tuple[Sampling, ...] = ("sampled", "greedy")

# Prefill, and a few decode steps.
ANSWER_TOKENS = 4

# Of the context length; words are not equally long in tokens.
LONGEST_PROMPT_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Tokens of a prompt of n words, about: overhead + n * per_word."""

    per_word: float
    overhead: float = 0.0

    def words_for(self, tokens: int) -> int:
        return max(1, math.floor((tokens - self.overhead) / self.per_word))


@dataclass(frozen=True, slots=True)
class Served:
    """What an engine was found to serve. Endpoints without a cost are not served."""

    model: str
    max_model_len: int | None
    costs: Mapping[Endpoint, TokenCost]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bucket:
    """Requests that are alike for the engine; latency is judged per bucket."""

    endpoint: Endpoint
    stream: bool
    sampling: Sampling
    prompt_tokens: int
    concurrency: int
    words: int = field(compare=False, default=1)
    answer_tokens: int = field(compare=False, default=ANSWER_TOKENS)

    @property
    def name(self) -> str:
        whole_or_stream = "stream" if self.stream else "whole"
        return (
            f"{self.endpoint}/{whole_or_stream}/{self.sampling}"
            f"/p{self.prompt_tokens}/c{self.concurrency}"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    buckets: tuple[Bucket, ...]
    notes: tuple[str, ...] = ()


def make_plan(served: Served, warmup: Warmup) -> Plan:
    answer_tokens = _answer_tokens(served.max_model_len)
    lengths, notes = _lengths(
        warmup.prompt_tokens or (16, 128), served.max_model_len, answer_tokens
    )
    kinds = itertools.product(
        sorted(set(warmup.concurrency or (1, 4))), lengths, ENDPOINTS, (True, False), SAMPLINGS
    )
    buckets = tuple(
        Bucket(
            endpoint,
            stream,
            sampling,
            length,
            concurrency,
            served.costs[endpoint].words_for(length),
            answer_tokens,
        )
        for concurrency, length, endpoint, stream, sampling in kinds
        if endpoint in served.costs
    )
    return Plan(buckets, served.notes + notes)


def _answer_tokens(max_model_len: int | None) -> int:
    if max_model_len is None:
        return ANSWER_TOKENS
    return max(1, min(ANSWER_TOKENS, max_model_len // 4))


def _lengths(
    wanted: tuple[int, ...], max_model_len: int | None, answer_tokens: int
) -> tuple[list[int], tuple[str, ...]]:
    """The prompt lengths that fit, shortest first, and a note about those that do not."""
    if max_model_len is None:
        return sorted(set(wanted)), ()
    longest = max(1, math.floor((max_model_len - answer_tokens) * LONGEST_PROMPT_SHARE))
    fitting = sorted({min(length, longest) for length in wanted})
    cut = sorted({length for length in wanted if length > longest})
    notes = tuple(
        f"prompts of {length} tokens are cut to {longest}: the engine's context length is "
        f"{max_model_len}"
        for length in cut
    )
    return fitting, notes


def unsupported(status: int, body: str) -> bool:
    """Whether an answer says that the engine lacks the endpoint, rather than that it failed.

    Seen in vLLM: 400 for a model without a chat template, 400, 404 or 501 for one that does not
    generate. 404 is also the answer for a wrong model name, which is a failure."""
    text = body.lower()
    if "chat template" in text or "does not support" in text:
        return status in (400, 404, 501)
    return status in (404, 405, 501) and "does not exist" not in text
