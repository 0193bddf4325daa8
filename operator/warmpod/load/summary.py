"""What was measured, in a few numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: when it was sent and ended, in seconds since the load began; seconds to its
    first token; tokens of its answer. `error` is why there was no valid answer."""

    started: float
    ended: float
    first_token: float = 0.0
    tokens: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """Seconds since the load began: after the ramp, before the end."""

    begin: float
    end: float

    def holds(self, moment: float) -> bool:
        return self.begin <= moment < self.end


@dataclass(frozen=True, slots=True)
class Summary:
    """Of the window. Times in milliseconds; None where no request tells."""

    requests: int
    failed: int
    tokens_per_second: float
    requests_per_second: float
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    tpot_p50_ms: float | None
    tpot_p99_ms: float | None
    error: str = ""
    """The first of what failed."""


def summarise(samples: Sequence[Sample], window: Window) -> Summary:
    """Rates count what ended in the window, latencies what was sent in it: so a long answer is
    neither lost nor counted twice."""
    sent = [sample for sample in samples if window.holds(sample.started)]
    failed = [sample.error for sample in samples if sample.error]
    good = [sample for sample in sent if not sample.error]
    ended = [sample for sample in samples if window.holds(sample.ended) and not sample.error]
    seconds = window.end - window.begin
    first = [sample.first_token * _MILLI for sample in good]
    each = [_per_token(sample) * _MILLI for sample in good if sample.tokens > 1]
    return Summary(
        requests=len(good),
        failed=len(failed),
        tokens_per_second=sum(sample.tokens for sample in ended) / seconds,
        requests_per_second=len(ended) / seconds,
        ttft_p50_ms=percentile(first, 50),
        ttft_p99_ms=percentile(first, 99),
        tpot_p50_ms=percentile(each, 50),
        tpot_p99_ms=percentile(each, 99),
        error=failed[0] if failed else "",
    )


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The nearest rank: a value that was measured, none between two."""
    if not values:
        return None
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[rank - 1]


def _per_token(sample: Sample) -> float:
    """Seconds for each token after the first."""
    return (sample.ended - sample.started - sample.first_token) / (sample.tokens - 1)
