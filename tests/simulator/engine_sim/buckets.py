"""Which requests share kernels, and which of them are still cold.

A real engine compiles and loads kernels at the first request that needs them. Here a request
touches one bucket for each of its features, and it is slow when any of these is still cold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

PROMPT_CLASSES = ((64, "short"), (1024, "medium"))
CONCURRENCY_CLASSES = ((1, "single"), (8, "batch"))


class Bucket(NamedTuple):
    """Requests that need the same kernels."""

    endpoint: str
    prompt: str
    concurrency: str
    feature: str


def touched(
    endpoint: str, prompt_tokens: int, running: int, features: Iterable[str]
) -> list[Bucket]:
    """The buckets of a request that arrives as one of `running` requests."""
    prompt = _class_of(prompt_tokens, PROMPT_CLASSES, "long")
    concurrency = _class_of(running, CONCURRENCY_CLASSES, "crowd")
    return [
        Bucket(endpoint, prompt, concurrency, feature) for feature in ("plain", *sorted(features))
    ]


def _class_of(value: int, classes: Iterable[tuple[int, str]], beyond: str) -> str:
    return next((name for limit, name in classes if value <= limit), beyond)


class ColdBuckets:
    """Counts requests per bucket; the first `cold_requests` of each are cold."""

    def __init__(self, cold_requests: int) -> None:
        self._cold_requests = cold_requests
        self._seen: Counter[Bucket] = Counter()

    def touch(self, buckets: Iterable[Bucket]) -> list[Bucket]:
        """Count a request; return those of its buckets that were still cold."""
        cold = []
        for bucket in buckets:
            if self._seen[bucket] < self._cold_requests:
                cold.append(bucket)
            self._seen[bucket] += 1
        return cold
