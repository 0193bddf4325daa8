"""The monitoring manifests name ports and metrics that exist."""

import re

from unit.install.tools import ROOT, Objects, kustomize
from warmpod.resources import names

METRIC = re.compile(r"\bwarmpod_[a-z_]+")


def monitoring() -> Objects:
    return kustomize(ROOT / "manifests/monitoring")


def exported() -> set[str]:
    sources = (ROOT / "operator/warmpod").rglob("metrics.py")
    return {name for source in sources for name in METRIC.findall(source.read_text())}


def test_rules_use_metrics_that_are_exported() -> None:
    rule = monitoring()["PrometheusRule", "warmpod-system", "warmpod"]
    expressions = [r["expr"] for group in rule["spec"]["groups"] for r in group["rules"]]
    used = {name.removesuffix("_total") for text in expressions for name in METRIC.findall(text)}
    assert used
    assert used <= exported()


def test_every_pod_port_is_scraped() -> None:
    monitor = monitoring()["PodMonitor", "warmpod-system", "warmpod-models"]
    ports = {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]}
    assert ports == {names.ENGINE_PORT_NAME, names.WARMUP_PORT_NAME, names.AGENT_PORT_NAME}


def test_operator_is_scraped_by_the_label_of_its_service() -> None:
    monitor = monitoring()["ServiceMonitor", "warmpod-system", "warmpod-operator"]
    service = kustomize(ROOT / "manifests/install")[
        "Service", "warmpod-system", "warmpod-operator-metrics"
    ]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == service["spec"]["ports"][0]["name"]
    # The series have a label `namespace` of their own, which is what the rules sum by.
    assert endpoint["honorLabels"] is True
