"""The sums for Prometheus. They count from the start of this operator, as counters do there: the
sums of the status would seem to fall when an operator ends before it has written the last ones."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmpod.controller.accounting.accounts import Accounts
from warmpod.controller.accounting.ledger import Outcome, Waiting


class AccountsCollector(Collector):
    """Every series of a model is there from its first look on, at 0, so that the first event is an
    increase."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def collect(self) -> Iterator[Metric]:
        labels = ("namespace", "model")
        needed = CounterMetricFamily(
            "warmpod_scale_out_pods",
            "Pods that were needed for serving, by how they came to serve.",
            labels=(*labels, "outcome"),
        )
        saved = CounterMetricFamily(
            "warmpod_scale_out_seconds_saved",
            "Seconds that pods would have taken to start that were warm or asleep instead.",
            labels=labels,
        )
        idle = CounterMetricFamily(
            "warmpod_standby_gpu_seconds",
            "GPUs times seconds of pods that are warm or asleep and do not serve.",
            labels=(*labels, "state"),
        )
        cost = CounterMetricFamily(
            "warmpod_standby_cost", "Price of these GPU seconds.", labels=labels
        )
        pods = GaugeMetricFamily(
            "warmpod_standby_pods",
            "Pods that are held back, by what they do.",
            labels=(*labels, "state"),
        )
        start = GaugeMetricFamily(
            "warmpod_start_seconds",
            "What the last pods took from their creation to the open gate: the median.",
            labels=labels,
        )
        for key, ledger, totals in self._accounts.each():
            for outcome, count in (
                (Outcome.WARM, totals.warm_hits),
                (Outcome.SLEEPING, totals.sleeping_hits),
                (Outcome.COLD, totals.cold_starts),
            ):
                needed.add_metric((*key, outcome), count)
            saved.add_metric(key, totals.seconds_saved)
            idle.add_metric((*key, Waiting.AWAKE), totals.awake_gpu_seconds)
            idle.add_metric((*key, Waiting.ASLEEP), totals.asleep_gpu_seconds)
            cost.add_metric(key, totals.cost)
            for state in Waiting:
                pods.add_metric((*key, state), ledger.waiting[state])
            if ledger.start_seconds is not None:
                start.add_metric(key, ledger.start_seconds)
        yield from (needed, saved, idle, cost, pods, start)
