"""What the agent tells Prometheus. Series are few: one agent holds one set of weights."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from warmpod.agent.config import AgentConfig
from warmpod.agent.lifecycle import Facts, Verdict


class Metrics:
    def __init__(self, config: AgentConfig) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        labels = {"model": config.model, "revision": config.revision, "medium": config.medium}

        def gauge(name: str, text: str) -> Gauge:
            made = Gauge(name, text, list(labels), registry=self._registry)
            made.labels(**labels)
            return made

        self._labels = labels
        self._needed = gauge("warmpod_weights_bytes", "Bytes of weights the model has.")
        self._done = gauge("warmpod_weights_stage_bytes", "Bytes done in the present stage.")
        self._resident = gauge("warmpod_weights_resident_bytes", "Bytes measured in memory.")
        self._ready = gauge("warmpod_weights_ready", "1 while the weights may be used.")
        self._bad = gauge("warmpod_weights_bad_files", "Files that are not as they must be.")
        self._reloads = Counter(
            "warmpod_weights_reloads",
            "How often dropped pages had to be read again.",
            list(labels),
            registry=self._registry,
        )
        self._reloads.labels(**labels)
        self._counted_reloads = 0

    def render(self, facts: Facts, verdict: Verdict, reloads: int) -> bytes:
        measurement = facts.measurement
        self._needed.labels(**self._labels).set(facts.total)
        self._done.labels(**self._labels).set(facts.done)
        self._resident.labels(**self._labels).set(measurement.resident if measurement else 0)
        self._ready.labels(**self._labels).set(verdict.ready)
        self._bad.labels(**self._labels).set(len(facts.findings))
        self._reloads.labels(**self._labels).inc(reloads - self._counted_reloads)
        self._counted_reloads = reloads
        return generate_latest(self._registry)
