"""The engine's metrics, with vLLM's names, labels and buckets, in Prometheus' text form."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# From vLLM's v1/metrics/buckets.py. Seconds.
FIRST_TOKEN: tuple[float, ...] = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
)
FIRST_TOKEN += (7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
INTER_TOKEN: tuple[float, ...] = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
)
INTER_TOKEN += (10.0, 20.0, 40.0, 80.0)
LATENCY: tuple[float, ...] = (
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
)
LATENCY += (240.0, 480.0, 960.0, 1920.0, 7680.0)
SLEEP_STATES = ("awake", "weights_offloaded", "discard_all")
FINISHED = ("stop", "length", "abort", "error", "repetition")


class Histogram:
    """A histogram over these upper bounds, in seconds."""

    def __init__(self, name: str, help_text: str, bounds: tuple[float, ...]) -> None:
        self.name = name
        self._help = help_text
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Add one measured time."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def lines(self, labels: str) -> Iterator[str]:
        """Its part of the page."""
        yield f"# HELP {self.name} {self._help}"
        yield f"# TYPE {self.name} histogram"
        total = 0
        for limit, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{self.name}_bucket{{{labels},le="{limit}"}} {float(total)}'
        yield f"{self.name}_count{{{labels}}} {float(total)}"
        yield f"{self.name}_sum{{{labels}}} {self._sum}"


def _times() -> dict[str, Histogram]:
    return {
        key: Histogram(f"vllm:{name}_seconds", help_text, bounds)
        for key, name, help_text, bounds in (
            (
                "first_token",
                "time_to_first_token",
                "Histogram of time to first token in seconds.",
                FIRST_TOKEN,
            ),
            (
                "inter_token",
                "inter_token_latency",
                "Histogram of inter-token latency in seconds.",
                INTER_TOKEN,
            ),
            (
                "per_token",
                "request_time_per_output_token",
                "Histogram of time_per_output_token_seconds per request.",
                INTER_TOKEN,
            ),
            (
                "whole",
                "e2e_request_latency",
                "Histogram of e2e request latency in seconds.",
                LATENCY,
            ),
            *(
                (
                    phase,
                    f"request_{phase}_time",
                    f"Histogram of time spent in {state} phase for request.",
                    LATENCY,
                )
                for phase, state in (
                    ("queue", "WAITING"),
                    ("inference", "RUNNING"),
                    ("prefill", "PREFILL"),
                    ("decode", "DECODE"),
                )
            ),
        )
    }


@dataclass
class Metrics:
    """What the engine counts. `max_loras` is None without adapters."""

    model: str
    kv_tokens: int
    max_loras: int | None = None
    running: Counter[str] = field(default_factory=Counter)  # by adapter, "" for none
    waiting: Counter[str] = field(default_factory=Counter)
    kv_tokens_used: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    sleep_state: str = "awake"
    awake: bool = True
    finished: Counter[str] = field(default_factory=Counter)
    times: dict[str, Histogram] = field(default_factory=_times)

    def render(self) -> str:
        """The whole page."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        labels = f'engine="0",model_name="{self.model}"'
        yield from self._gauges(labels)
        yield from self._counters(labels)
        for histogram in self.times.values():
            yield from histogram.lines(labels)
        if self.max_loras is not None:
            yield from self._lora_info(self.max_loras)

    def _gauges(self, labels: str) -> Iterator[str]:
        waiting = self.waiting.total()
        yield from _series(
            "num_requests_running",
            "Number of requests in model execution batches.",
            "gauge",
            {labels: self.running.total()},
        )
        yield from _series(
            "num_requests_waiting",
            "Number of requests waiting to be processed.",
            "gauge",
            {labels: waiting},
        )
        yield from _series(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            "gauge",
            {f'{labels},reason="capacity"': waiting, f'{labels},reason="deferred"': 0},
        )
        states = {state: float(state == self.sleep_state) for state in SLEEP_STATES}
        states["awake"] = float(self.awake)
        yield from _series(
            "engine_sleep_state",
            "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is "
            "awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level "
            "2.",
            "gauge",
            {f'{labels},sleep_state="{state}"': value for state, value in states.items()},
        )
        yield from _series(
            "kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            "gauge",
            {labels: self.kv_tokens_used / self.kv_tokens},
        )
        info = f'block_size="16",engine="0",num_gpu_blocks="{self.kv_tokens // 16}"'
        yield from _series(
            "cache_config_info", "Information of the LLMEngine CacheConfig", "gauge", {info: 1}
        )

    def _counters(self, labels: str) -> Iterator[str]:
        for name, help_text, value in (
            (
                "prefix_cache_queries",
                "Prefix cache queries, in terms of number of queried tokens.",
                self.prefix_queries,
            ),
            (
                "prefix_cache_hits",
                "Prefix cache hits, in terms of number of cached tokens.",
                self.prefix_hits,
            ),
            ("num_preemptions", "Cumulative number of preemption from the engine.", 0),
            ("prompt_tokens", "Number of prefill tokens processed.", self.prompt_tokens),
            (
                "prompt_tokens_cached",
                "Number of cached prompt tokens (local + external).",
                self.prefix_hits,
            ),
            (
                "generation_tokens",
                "Number of generation tokens processed.",
                self.generation_tokens,
            ),
        ):
            yield from _series(f"{name}_total", help_text, "counter", {labels: value})
        yield from _series(
            "request_success_total",
            "Count of successfully processed requests.",
            "counter",
            {f'{labels},finished_reason="{name}"': self.finished[name] for name in FINISHED},
        )

    def _lora_info(self, max_loras: int) -> Iterator[str]:
        running, waiting = (
            ",".join(sorted(name for name, count in counted.items() if name and count))
            for counted in (self.running, self.waiting)
        )
        labels = f'max_lora="{max_loras}",running_lora_adapters="{running}"'
        labels += f',waiting_lora_adapters="{waiting}"'
        yield from _series(
            "lora_requests_info", "Running stats on lora requests.", "gauge", {labels: time.time()}
        )


def _series(name: str, help_text: str, kind: str, values: Mapping[str, float]) -> Iterator[str]:
    family = f"vllm:{name}"
    yield f"# HELP {family} {help_text}"
    yield f"# TYPE {family} {kind}"
    for labels, value in values.items():
        yield f"{family}{{{labels}}} {float(value)}"
