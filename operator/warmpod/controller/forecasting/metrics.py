"""How good forecasts are, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from warmpod.controller.forecasting.scores import Errors
from warmpod.controller.objects.views import Key


class ForecastErrors(Collector):
    def __init__(self, errors: Callable[[], Iterable[tuple[Key, Errors]]]) -> None:
        self._errors = errors

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "warmpod_forecast_error_pods",
            "Mean absolute error of the last season's forecasts, in pods.",
            labels=("namespace", "model", "by"),
        )
        for key, errors in self._errors():
            family.add_metric((*key, "forecast"), errors.forecast)
            family.add_metric((*key, "schedule"), errors.scheduled)
            if errors.naive is not None:
                family.add_metric((*key, "last-season"), errors.naive)
        yield family
