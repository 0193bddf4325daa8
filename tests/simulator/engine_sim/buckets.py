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
# The sizes that vLLM captures CUDA graphs for, up to where they are as good as one.
CAPTURED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Bucket(NamedTuple):
    """Requests that need the same kernels."""

    endpoint: str
    prompt: str
    concurrency: str
    feature: str


def touched(
    endpoint: str, prompt_tokens: int, running: int, features: Iterable[str], fine: bool = False
) -> list[Bucket]:
    """The buckets of a request that arrives as one of `running` requests."""
    if fine:
        prompt, concurrency = fine_prompt_class(prompt_tokens), _captured(running)
    else:
        prompt = _class_of(prompt_tokens, PROMPT_CLASSES, "long")
        concurrency = _class_of(running, CONCURRENCY_CLASSES, "crowd")
    return [
        Bucket(endpoint, prompt, concurrency, feature) for feature in ("plain", *sorted(features))
    ]


def fine_prompt_class(tokens: int) -> str:
    """Length class, and the class that integer arguments of Triton kernels are compiled for."""
    if tokens == 1:
        return "one"
    length = _class_of(tokens, PROMPT_CLASSES, "long")
    return f"{length}-aligned" if tokens % BLOCK == 0 else length


def _captured(running: int) -> str:
    return next((f"c{size}" for size in CAPTURED if running <= size), "eager")


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
