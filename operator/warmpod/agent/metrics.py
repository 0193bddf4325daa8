"""What the agent tells Prometheus. Series are few: one agent holds one model's sets of weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmpod.agent.cache.store import StoreState
from warmpod.agent.config import AgentConfig
from warmpod.agent.state import SetState, State

LABELS = ("model", "medium", "set")

Read = Callable[[SetState], float | None]

GAUGES: dict[str, tuple[str, Read]] = {
    "warmpod_weights_ready": ("1 while the set may be used.", lambda s: s.verdict.ready),
    "warmpod_weights_bytes": ("Bytes that the set has.", lambda s: s.facts.total),
    "warmpod_weights_staged_bytes": (
        "Bytes downloaded from a remote source.",
        lambda s: s.staged_bytes,
    ),
    "warmpod_weights_stage_bytes": (
        "Bytes done in the present stage.",
        lambda s: s.facts.progress.done,
    ),
    "warmpod_weights_stage_bytes_per_second": (
        "Rate of the present stage, measured at each tenth of it.",
        lambda s: s.facts.progress.rate,
    ),
    "warmpod_weights_resident_bytes": ("Bytes measured in memory.", lambda s: s.resident_bytes),
    "warmpod_weights_bad_files": (
        "Files that are not as they must be.",
        lambda s: len(s.facts.findings),
    ),
    "warmpod_weights_scrub_seconds": ("What the last scrub took.", lambda s: s.scrub_seconds),
}
COUNTERS: dict[str, tuple[str, Read]] = {
    "warmpod_weights_reloads": (
        "How often dropped pages had to be read again.",
        lambda s: s.reloads,
    ),
    "warmpod_weights_repairs": (
        "How often a set in use was found missing or changed.",
        lambda s: s.repairs,
    ),
}


CACHE_GAUGES: dict[str, tuple[str, Callable[[StoreState], float]]] = {
    "warmpod_compile_cache_entries": ("Entries that pods can start with.", lambda s: s.entries),
    "warmpod_compile_cache_bytes": (
        "Bytes of the store's entries, those set aside included.",
        lambda s: s.bytes,
    ),
}
CACHE_COUNTERS: dict[str, tuple[str, Callable[[StoreState], float]]] = {
    "warmpod_compile_cache_admitted": (
        "Entries that were taken over from pods.",
        lambda s: s.admitted,
    ),
    "warmpod_compile_cache_refused": (
        "Offers of pods that were not what they must be.",
        lambda s: s.refused,
    ),
    "warmpod_compile_cache_set_aside": (
        "Entries that a pod could not use or died with.",
        lambda s: s.set_aside,
    ),
    "warmpod_compile_cache_removed": (
        "Entries that went because the store was full.",
        lambda s: s.removed,
    ),
}


class Metrics(Collector):
    """Reads the state when it is asked, so nothing has to be kept up to date."""

    def __init__(self, config: AgentConfig, state: State) -> None:
        self._config = config
        self._state = state
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        state = self._state()
        if state.cache is not None:
            yield from self._of_cache(state.cache)
        sets = state.sets
        for name, (text, read) in GAUGES.items():
            yield self._fill(GaugeMetricFamily(name, text), sets, read)
        for name, (text, read) in COUNTERS.items():
            yield self._fill(CounterMetricFamily(name, text), sets, read)

    def _of_cache(self, cache: StoreState) -> Iterable[Metric]:
        for name, (text, read) in CACHE_GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=("model",))
            gauge.add_metric((self._config.model,), read(cache))
            yield gauge
        for name, (text, read) in CACHE_COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=("model",))
            counter.add_metric((self._config.model,), read(cache))
            yield counter

    def _fill(
        self, family: GaugeMetricFamily | CounterMetricFamily, sets: Iterable[SetState], read: Read
    ) -> Metric:
        suffix = "_total" if isinstance(family, CounterMetricFamily) else ""
        for each in sets:
            value = read(each)
            if value is not None:
                labels = (self._config.model, self._config.medium, each.name)
                family.add_sample(
                    family.name + suffix, dict(zip(LABELS, labels, strict=True)), value
                )
        return family
