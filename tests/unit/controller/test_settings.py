"""The environment of the operator."""

from __future__ import annotations

from decimal import Decimal

import pytest

from warmpod.controller.settings import InvalidSettings, from_environment

BASE = {"WARMPOD_OPERATOR_IMAGE": "image", "WARMPOD_NAMESPACE": "system"}


def test_defaults() -> None:
    found = from_environment(BASE, "host")
    assert found.watch_namespaces == ()
    assert found.port == 8080
    assert found.identity == "host"
    assert found.heartbeat_watched
    assert found.pulls_per_registry == 5
    assert not found.remove_startup_taint
    assert found.user == ""
    assert found.gpu_hour_price is None
    assert found.prometheus_url == ""


def test_everything_given() -> None:
    given = {
        **BASE,
        "WARMPOD_WATCH_NAMESPACES": " b, a,,b",
        "WARMPOD_PORT": "9000",
        "POD_NAME": "me",
        "WARMPOD_SERVICE_ACCOUNT": "operator",
        "WARMPOD_PULLS_PER_REGISTRY": "12",
        "WARMPOD_REMOVE_STARTUP_TAINT": "true",
        "WARMPOD_GPU_HOUR_PRICE": "2.50",
        "WARMPOD_PROMETHEUS_URL": "https://prometheus.example.com/p",
    }
    found = from_environment(given, "host")
    assert found.watch_namespaces == ("a", "b")
    assert (found.port, found.identity) == (9000, "me")
    assert not found.heartbeat_watched
    assert found.user == "system:serviceaccount:system:operator"
    assert found.pulls_per_registry == 12
    assert found.gpu_hour_price == Decimal("2.5")
    assert found.remove_startup_taint
    assert found.prometheus_url == "https://prometheus.example.com/p"


def test_the_pods_namespace_is_the_default() -> None:
    given = {"WARMPOD_OPERATOR_IMAGE": "image", "POD_NAMESPACE": "pods"}
    assert from_environment(given, "host").namespace == "pods"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"WARMPOD_OPERATOR_IMAGE": ""}, "WARMPOD_OPERATOR_IMAGE"),
        ({"WARMPOD_NAMESPACE": ""}, "WARMPOD_NAMESPACE"),
        ({"WARMPOD_PORT": "http"}, "WARMPOD_PORT"),
        ({"WARMPOD_PORT": "70000"}, "WARMPOD_PORT"),
        ({"WARMPOD_PULLS_PER_REGISTRY": "0"}, "WARMPOD_PULLS_PER_REGISTRY"),
        ({"WARMPOD_PULLS_PER_REGISTRY": "many"}, "WARMPOD_PULLS_PER_REGISTRY"),
        ({"WARMPOD_REMOVE_STARTUP_TAINT": "yes"}, "WARMPOD_REMOVE_STARTUP_TAINT"),
        ({"WARMPOD_GPU_HOUR_PRICE": "2,50"}, "WARMPOD_GPU_HOUR_PRICE"),
        ({"WARMPOD_GPU_HOUR_PRICE": "-1"}, "WARMPOD_GPU_HOUR_PRICE"),
        ({"WARMPOD_PROMETHEUS_URL": "prometheus:9090"}, "WARMPOD_PROMETHEUS_URL"),
    ],
)
def test_errors_name_the_variable(change: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidSettings, match=named):
        from_environment({**BASE, **change}, "host")
