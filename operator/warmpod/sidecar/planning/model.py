"""The data of a plan."""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from warmpod.engine import EngineTraits

Endpoint = Literal[
    "chat",
    "completion",
    "embeddings",
    "pooling",
    "classify",
    "score",
    "rerank",
    "transcription",
]

# The most used first.
ENDPOINTS: tuple[Endpoint, ...] = get_args(Endpoint)
GENERATING: tuple[Endpoint, ...] = ("chat", "completion")

# By their names in the spec.
API_ENDPOINTS: Mapping[str, Endpoint] = {
    "Chat": "chat",
    "Completion": "completion",
    "Embeddings": "embeddings",
}

# Prefill, and a few decode steps.
ANSWER_TOKENS = 4

# How the names of buckets begin that prime the prefix cache, that are the user's own, and that ask
# an adapter.
PREFIX = "prefix/"
USER = "user/"
ADAPTER = "adapter/"

# vLLM's defaults (engine/arg_utils.py, 0.26 to 0.33) depend on the GPU: 2048, 8192 or 16384 tokens
# a step and 256 or 1024 requests. With 8192 a smaller budget is exercised, too.
ASSUMED_BATCHED_TOKENS = 8192
ASSUMED_NUM_SEQS = 256


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Tokens of a prompt of n words, about: overhead + n * per_word."""

    per_word: float
    overhead: float = 0.0

    def words_for(self, tokens: int) -> int:
        return max(1, math.floor((tokens - self.overhead) / self.per_word))

    def tokens_for(self, words: int) -> int:
        return max(1, math.ceil(self.overhead + words * self.per_word - 1e-9))


@dataclass(frozen=True, slots=True)
class Served:
    """What an engine was found to serve.

    `costs` has the endpoints that are served; `features` the names of the buckets that were tried
    and not refused. `token_ids` are ids of ordinary words, with which prompts get exact lengths;
    none where the engine did not tell. `answer_tokens` is the longest answer that may be asked
    for, where that was found to be bounded.
    """

    model: str
    max_model_len: int | None
    costs: Mapping[Endpoint, TokenCost]
    notes: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    traits: EngineTraits = field(default_factory=EngineTraits)
    features: frozenset[str] = frozenset()
    token_ids: tuple[int, ...] = ()
    answer_tokens: int | None = None

    @property
    def max_num_batched_tokens(self) -> int:
        return self.traits.max_num_batched_tokens or ASSUMED_BATCHED_TOKENS

    @property
    def max_num_seqs(self) -> int:
        return self.traits.max_num_seqs or ASSUMED_NUM_SEQS

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The most used first."""
        return tuple(endpoint for endpoint in ENDPOINTS if endpoint in self.costs)


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is made up when a request is sent, so that no prefix cache knows it.

    `size` is in words, or in tokens where `ids` are given to choose from. `prefix` comes first and
    is always the same, as a system prompt or at the beginning of the text. Requests of one bucket
    with equal texts of which `same` is set get the same words.
    """

    size: int
    ids: tuple[int, ...] = ()
    items: int = 0  # of a list of texts; 0: no list
    prefix: str = ""
    as_system: bool = False
    same: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """`count` requests that are alike. `body` lacks only what `text`, `image` (width and height in
    pixels) and `audio` (seconds) stand for. The numbers of tokens are of one request: about, and
    at most."""

    body: Mapping[str, Any]
    text: Text | None = None
    count: int = 1
    prompt_tokens: int = 0
    answer_tokens: int = 0
    image: tuple[int, int] | None = None
    audio: float | None = None


Wave = tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Requests that are alike for the engine; latency is judged per bucket.

    The waves are sent one after another, the requests of a wave at once; the last wave is what is
    measured."""

    name: str
    endpoint: Endpoint
    stream: bool
    waves: tuple[Wave, ...] = field(compare=False)
    what: str = field(compare=False, default="")

    @property
    def concurrency(self) -> int:
        """Requests of the measured wave."""
        return sum(ask.count for ask in self.waves[-1])

    @property
    def requests(self) -> int:
        return sum(ask.count for wave in self.waves for ask in wave)

    @property
    def tokens(self) -> int:
        """Of all prompts and answers, about."""
        return sum(
            ask.count * (ask.prompt_tokens + ask.answer_tokens)
            for wave in self.waves
            for ask in wave
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Buckets, the most used first; notes say what was left out or cut, and why."""

    buckets: tuple[Bucket, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(bucket.name for bucket in self.buckets)

    def prefixes(self) -> "Plan":
        """The buckets that prime the prefix cache."""
        primed = (bucket for bucket in self.buckets if bucket.name.startswith(PREFIX))
        return replace(self, buckets=tuple(primed))

    def without(self, names: Container[str]) -> "Plan":
        return replace(self, buckets=tuple(b for b in self.buckets if b.name not in names))


def bucket_of(
    name: str, endpoint: Endpoint, waves: Sequence[Sequence[Ask]], what: str = ""
) -> Bucket:
    """Streams when the requests that are measured do."""
    frozen = tuple(tuple(wave) for wave in waves)
    return Bucket(name, endpoint, bool(frozen[-1][0].body.get("stream")), frozen, what)
