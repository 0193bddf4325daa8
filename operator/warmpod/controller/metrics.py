"""What the operator counts, for Prometheus.

No label carries the name of a pod: such a label makes a new series for each start.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from warmpod.controller.cache import Cache
from warmpod.controller.kinds import POD
from warmpod.controller.views import PodView, conditions_of
from warmpod.protocol import WARM_CONDITION
from warmpod.resources.names import COMPONENT_LABEL


class Metrics:
    def __init__(self, registry: CollectorRegistry, cache: Cache) -> None:
        self.reconcile_seconds = Histogram(
            "warmpod_operator_reconcile_duration_seconds",
            "Time to reconcile one WarmModel.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        )
        self.reconcile_errors = Counter(
            "warmpod_operator_reconcile_errors",
            "Reconciles that ended in an error and are tried again.",
            registry=registry,
        )
        self.writes = Counter(
            "warmpod_operator_writes",
            "Write requests to the API server.",
            ("kind",),
            registry=registry,
        )
        self.events_lost = Counter(
            "warmpod_operator_events_lost",
            "Kubernetes Events that could not be written.",
            registry=registry,
        )
        self.queue_depth = Gauge(
            "warmpod_operator_queue_depth",
            "WarmModels that wait for a worker.",
            registry=registry,
        )
        self._last_event = time.monotonic()
        Gauge(
            "warmpod_operator_last_event_age_seconds",
            "Seconds since the last watch event of any kind.",
            registry=registry,
        ).set_function(lambda: time.monotonic() - self._last_event)
        registry.register(_CacheCollector(cache))

    def event_seen(self) -> None:
        self._last_event = time.monotonic()

    def reconciled(self, seconds: float, error: BaseException | None) -> None:
        self.reconcile_seconds.observe(seconds)
        if error is not None:
            self.reconcile_errors.inc()


class _CacheCollector(Collector):
    """Counts at scrape time, so that nothing has to be kept in step."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield self._models()
        yield self._pods()

    def _models(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "warmpod_warmmodels",
            "WarmModels by condition and its status.",
            labels=("namespace", "condition", "status"),
        )
        tally: Tally[tuple[str, str, str]] = Tally()
        for model in self._cache.models():
            for name, condition in conditions_of(model.body.get("status") or {}).items():
                tally[(model.meta.namespace, name, condition.status)] += 1
        for labels, count in sorted(tally.items()):
            family.add_metric(labels, count)
        return family

    def _pods(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "warmpod_pods",
            "Pods of WarmModels by component and state.",
            labels=("namespace", "component", "state"),
        )
        tally: Tally[tuple[str, str, str]] = Tally()
        for pod in self._cache.every(POD):
            if isinstance(pod, PodView):
                component = pod.meta.labels.get(COMPONENT_LABEL, "")
                tally[(pod.meta.namespace, component, _state(pod))] += 1
        for labels, count in sorted(tally.items()):
            family.add_metric(labels, count)
        return family


def _state(pod: PodView) -> str:
    if pod.meta.deleting:
        return "terminating"
    if pod.is_true(WARM_CONDITION) and pod.is_true("Ready"):
        return "warm"
    if pod.is_true("Ready"):
        return "ready"
    return pod.phase.lower() or "unknown"
