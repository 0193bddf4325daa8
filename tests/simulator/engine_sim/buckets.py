"""Which requests share kernels, and which of them are still cold.

A real engine compiles and loads kernels at the first request that needs them. Here a request
touches one bucket for each of its features, and it is slow when any of these is still cold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

# vLLM's block size, and what Triton specialises whole numbers on besides 1.
BLOCK = 16
PROMPT_CLASSES = ((64, "short"), (1024, "medium"))
CONCURRENCY_CLASSES = ((1, "single"), (8, "batch"))
ANY = "any"


class Bucket(NamedTuple):
    """Requests that need the same kernels."""

    endpoint: str
    prompt: str
    concurrency: str
    feature: str


def kind(endpoint: str, prompt_tokens: int, running: int, features: Iterable[str]) -> Bucket:
    """What a request is as a whole: requests of one kind are alike in all that matters."""
    prompt, concurrency = _classes(prompt_tokens, running)
    return Bucket(endpoint, prompt, concurrency, "+".join(sorted(features)) or "plain")


def touched(
    endpoint: str, prompt_tokens: int, running: int, features: Iterable[str]
) -> list[Bucket]:
    """The buckets of a request that arrives as one of `running` requests."""
    prompt, concurrency = _classes(prompt_tokens, running)
    return [
        Bucket(endpoint, prompt, concurrency, feature) for feature in ("plain", *sorted(features))
    ]


def finely_touched(
    endpoint: str, prompt_tokens: int, running: int, features: Iterable[str]
) -> list[Bucket]:
    """The same with the kernels of a GPU: those for a length, for a batch, for an endpoint and for
    a feature know nothing of each other, and whole numbers have Triton's classes."""
    return [
        Bucket(ANY, fine_prompt_class(prompt_tokens), ANY, "prefill"),
        Bucket(ANY, ANY, fine_batch_class(running), "decode"),
        Bucket(endpoint, ANY, ANY, "plain"),
        *(Bucket(ANY, ANY, ANY, feature) for feature in sorted(features)),
    ]


def fine_prompt_class(tokens: int) -> str:
    """One token, or a length class with the multiples of 16 apart."""
    if tokens == 1:
        return "one"
    length = _class_of(tokens, PROMPT_CLASSES, "long")
    return f"{length}-aligned" if tokens % BLOCK == 0 else length


def fine_batch_class(running: int) -> str:
    """One request, multiples of 16, and others up to 8 and beyond."""
    if running > 1 and running % BLOCK == 0:
        return "aligned"
    return _class_of(running, CONCURRENCY_CLASSES, "crowd")


def _classes(prompt_tokens: int, running: int) -> tuple[str, str]:
    return (
        _class_of(prompt_tokens, PROMPT_CLASSES, "long"),
        _class_of(running, CONCURRENCY_CLASSES, "crowd"),
    )


def _class_of(value: int, classes: Iterable[tuple[int, str]], beyond: str) -> str:
    return next((name for limit, name in classes if value <= limit), beyond)


class ColdBuckets:
    """Counts requests per bucket; the first `cold_requests` of each are cold."""

    def __init__(self, cold_requests: int, compiled: Iterable[Bucket] = ()) -> None:
        self._cold_requests = cold_requests
        self._seen: Counter[Bucket] = Counter(dict.fromkeys(compiled, cold_requests))

    def touch(self, buckets: Iterable[Bucket]) -> list[Bucket]:
        """Count a request; return those of its buckets that were still cold."""
        cold = []
        for bucket in buckets:
            if self._seen[bucket] < self._cold_requests:
                cold.append(bucket)
            self._seen[bucket] += 1
        return cold

    def seen(self, bucket: Bucket) -> int:
        """How many requests it had."""
        return self._seen[bucket]
