"""The engine's metrics, with vLLM's names, in Prometheus' text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

LATENCY_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass
class Histogram:
    """A histogram over LATENCY_BUCKETS, in seconds."""

    total: float = 0.0
    count: int = 0
    within: list[int] = field(default_factory=lambda: [0] * len(LATENCY_BUCKETS))

    def observe(self, seconds: float) -> None:
        """Add one measured time."""
        self.total += seconds
        self.count += 1
        for index, limit in enumerate(LATENCY_BUCKETS):
            self.within[index] += seconds <= limit


@dataclass
class Metrics:
    """What the engine counts."""

    model: str
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    first_token: Histogram = field(default_factory=Histogram)
    whole_request: Histogram = field(default_factory=Histogram)

    def render(self) -> str:
        """The whole page."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        labels = f'engine="0",model_name="{self.model}"'
        for name, value in (
            ("vllm:num_requests_running", self.running),
            ("vllm:num_requests_waiting", self.waiting),
            ("vllm:kv_cache_usage_perc", 0),
        ):
            yield f"# TYPE {name} gauge"
            yield f"{name}{{{labels}}} {float(value)}"
        for name, value in (
            ("vllm:prompt_tokens", self.prompt_tokens),
            ("vllm:generation_tokens", self.generation_tokens),
        ):
            yield f"# TYPE {name}_total counter"
            yield f"{name}_total{{{labels}}} {float(value)}"
        yield "# TYPE vllm:request_success_total counter"
        for reason in ("stop", "length", "abort"):
            count = float(self.finished[reason])
            yield f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {count}'
        yield from _histogram("vllm:time_to_first_token_seconds", labels, self.first_token)
        yield from _histogram("vllm:e2e_request_latency_seconds", labels, self.whole_request)


def _histogram(name: str, labels: str, histogram: Histogram) -> Iterator[str]:
    yield f"# TYPE {name} histogram"
    for limit, count in zip(LATENCY_BUCKETS, histogram.within, strict=True):
        yield f'{name}_bucket{{{labels},le="{limit}"}} {float(count)}'
    yield f'{name}_bucket{{{labels},le="+Inf"}} {float(histogram.count)}'
    yield f"{name}_count{{{labels}}} {float(histogram.count)}"
    yield f"{name}_sum{{{labels}}} {histogram.total}"
