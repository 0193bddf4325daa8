"""What the operator counts, for Prometheus.

No label carries the name of a pod: such a label makes a new series for each start.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.views import Key, PodView, conditions_of
from warmpod.controller.telling import hits
from warmpod.protocol import WARM_CONDITION
from warmpod.resources.names import COMPONENT_LABEL
from warmpod.startup import names

#: Seconds; a phase may be one of milliseconds, a start-up one of an hour.
PHASE_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600)
STARTUP_BUCKETS = (1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600)


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
        self.failing = Gauge(
            "warmpod_operator_failing_warmmodels",
            "WarmModels whose latest reconcile ended in an error.",
            registry=registry,
        )
        self.startups = StartupMetrics(registry)
        self.failed_nodes = FailedNodes()
        registry.register(self.failed_nodes)
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


class StartupMetrics:
    """Start-ups that ended with an open gate, each once: when the status first tells it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._phases = Histogram(
            "warmpod_startup_phase_seconds",
            "What a phase took of a start-up.",
            ("phase",),
            buckets=PHASE_BUCKETS,
            registry=registry,
        )
        self._wholes = Histogram(
            "warmpod_startup_seconds",
            "From the creation of the pod, or the start of a later boot, to the open gate.",
            ("cause",),
            buckets=STARTUP_BUCKETS,
            registry=registry,
        )
        self._caches = Counter(
            "warmpod_compile_cache_startups",
            "Start-ups with a store of compiled code, by what came from it and what the engine "
            "said.",
            ("outcome", "compile"),
            registry=registry,
        )

    def observe(self, startup: dict[str, Any]) -> None:
        """An entry of `status.lastStartups`."""
        cause = startup.get("cause", "")
        if "startSeconds" in startup:
            known = cause if cause in names.CAUSES else names.OTHER
            self._wholes.labels(known).observe(startup["startSeconds"])
        if startup.get("cache"):
            outcome, compiled = startup["cache"], startup.get("compile")
            self._caches.labels(
                outcome if outcome in names.CACHE_OUTCOMES else names.OTHER,
                compiled if compiled in ("hit", "miss") else "unknown",
            ).inc()
        for phase in startup.get("phases", ()):
            self._phases.labels(names.known(phase["name"])).observe(phase["milliseconds"] / 1000)


class FailedNodes(Collector):
    """Every node that the weights cannot get to, of which a status names only a few.

    Replaced whole at each reconcile, so that a node that is gone or well again has no series.
    """

    def __init__(self) -> None:
        self._failed: dict[Key, tuple[tuple[str, str], ...]] = {}

    def replace(self, key: Key, failed: tuple[tuple[str, str], ...]) -> None:
        """`failed`: nodes, each once, and the reason."""
        if failed:
            self._failed[key] = failed
        else:
            self.forget(key)

    def forget(self, key: Key) -> None:
        self._failed.pop(key, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "warmpod_node_failed",
            "1 for each node that the weights cannot get to.",
            labels=("namespace", "model", "node", "reason"),
        )
        for key, failed in sorted(self._failed.items()):
            for node, reason in failed:
                family.add_metric((*key, node, reason), 1)
        yield family


class _CacheCollector(Collector):
    """Counts at scrape time, so that nothing has to be kept in step."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield self._models()
        yield self._nodes()
        yield self._pods()
        yield self._hit_rates()

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

    def _nodes(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "warmpod_warmmodel_nodes",
            "Nodes of a WarmModel by how far the model is there.",
            labels=("namespace", "model", "state"),
        )
        for model in self._cache.models():
            nodes = (model.body.get("status") or {}).get("nodes") or {}
            for state in ("eligible", "prefetched", "resident"):
                family.add_metric((*model.meta.key, state), nodes.get(state, 0))
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

    def _hit_rates(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "warmpod_cache_hit_rate",
            "Share of the last start-ups that found compiled code, of the pods that found images.",
            labels=("cache_type",),
        )
        pods = [pod for pod in self._cache.every(POD) if isinstance(pod, PodView)]
        found = {"compile": hits.compile_hits(self._cache.models()), "image": hits.image_hits(pods)}
        for cache, each in found.items():
            if each:
                family.add_metric((cache,), sum(each) / len(each))
        return family


def _state(pod: PodView) -> str:
    if pod.meta.deleting:
        return "terminating"
    if pod.is_true(WARM_CONDITION) and pod.is_true("Ready"):
        return "warm"
    if pod.is_true("Ready"):
        return "ready"
    return pod.phase.lower() or "unknown"
