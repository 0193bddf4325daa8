"""Real autoscalers: pods that warm up do not make them ask for more than the load does."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import external_metrics
from support.api import Api, ApiError, JsonObject
from support.autoscaling import EngineCpu, Load, Replicas
from support.events import wait_event
from support.models import ModelView, warm_model, with_engine
from support.waiting import wait_until
from warmpod.controller.diagnosis import autoscaling

pytestmark = pytest.mark.alone

Create = Callable[[JsonObject], ModelView]

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"
#: Seconds that a warm-up takes at least.
WARMUP_S = 60
#: What the load asks for (by processor time, which varies, about that), and far more than it does.
ASKED, MOST = 3, 8


def slow(name: str, namespace: str) -> JsonObject:
    """A model whose pods answer at once and warm up for a minute."""
    return with_engine(
        warm_model(name, namespace),
        sim={
            "load_seconds": 1,
            # Eight times of this are a warm-up: the buckets of the plan that are cold, twice each.
            "first_seconds": 10,
            "cold_requests": 2,
            "token_seconds": 0.02,
        },
    )


def sample(file: str, view: ModelView, **spec: Any) -> JsonObject:
    """The sample, for another model."""
    text = (SAMPLES / file).read_text()
    text = text.replace("warmpod-demo", view.namespace).replace('"sim"', f'"{view.name}"')
    body: JsonObject = yaml.safe_load(text)
    body["metadata"]["name"] = body["spec"]["scaleTargetRef"]["name"] = view.name
    body["spec"].update(spec)
    return body


def paced(behavior: JsonObject, view: ModelView) -> None:
    """Scaling out as the rule says, by the start that was measured; scaling in is quick."""
    start = autoscaling.start_seconds(view.get()["status"]["lastStartups"])
    for policy in behavior["scaleUp"]["policies"]:
        policy["periodSeconds"] = start
    behavior["scaleDown"] = {
        "stabilizationWindowSeconds": 30,
        "policies": [{"type": "Pods", "value": 2, "periodSeconds": 15}],
    }


def out_and_in_twice(load: Load, replicas: Replicas, least: int) -> None:
    """`least`: what the load asks for at least."""
    replicas.wait_for(1, 1)
    for _ in range(2):
        load.begin()
        replicas.wait_for(least, MOST)
        load.end()
        replicas.wait_for(1, 1)


def assert_slow_and_steady(view: ModelView, replicas: Replicas, asked: int) -> None:
    """`asked`: what the load asked for at most."""
    warmups = [found["warmupSeconds"] for found in view.get()["status"]["lastStartups"]]
    assert min(warmups) >= WARMUP_S
    assert max(replicas.asked) <= asked < MOST, replicas.steps()


def test_by_processor_time(api: Api, create: Create, namespace: str) -> None:
    view = create(slow("busy", namespace))
    view.wait_ready(timeout_s=400)
    # Forty requests a second, whatever they are answered by: more pods do not make it more.
    load = Load(view, clients=40, tokens=4, period_s=1)
    load.begin()
    with EngineCpu(view) as used, Replicas(view) as replicas:
        wait_until("processor time has settled", used.settled, timeout_s=180)
        load.end()
        per_pod = used.totals[-1] / (ASKED - 0.7)
        autoscaler = sample("hpa-cpu.yaml", view, maxReplicas=MOST)
        (metric,) = autoscaler["spec"]["metrics"]
        target = metric["containerResource"]["target"]
        target["averageValue"] = f"{per_pod * 1000:.0f}m"
        paced(autoscaler["spec"]["behavior"], view)
        api.apply(autoscaler)
        out_and_in_twice(load, replicas, least=ASKED - 1)
    asked = math.ceil(max(used.totals) / per_pod)
    assert_slow_and_steady(view, replicas, max(asked, ASKED))


@pytest.mark.prometheus
def test_by_requests(api: Api, create: Create, namespace: str, tmp_path: Path) -> None:
    """The query of the sample for KEDA, from a Prometheus that scrapes the engines."""
    view = create(slow("asked", namespace))
    view.wait_ready(timeout_s=400)
    scaled = sample("hpa-requests.yaml", view)
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    prometheus = service_url(api, "prometheus", "monitoring", 9090)
    autoscaler = sample("hpa-cpu.yaml", view, maxReplicas=MOST)
    target = {"type": "AverageValue", "averageValue": "8"}
    metric = {"metric": {"name": external_metrics.METRIC}, "target": target}
    autoscaler["spec"]["metrics"] = [{"type": "External", "external": metric}]
    paced(autoscaler["spec"]["behavior"], view)
    load = Load(view, clients=20, tokens=200)

    def value() -> float:
        return external_metrics.ask_prometheus(prometheus, query)

    serving = external_metrics.serving_metric(api, tmp_path, namespace, value)
    with serving as told, Replicas(view) as replicas:
        api.apply(autoscaler)
        out_and_in_twice(load, replicas, least=ASKED)
    # A canary may be among them.
    assert max(told) <= load.clients + ASKED
    assert_slow_and_steady(view, replicas, ASKED)


@pytest.mark.keda
@pytest.mark.prometheus
def test_by_requests_through_keda(api: Api, create: Create, namespace: str) -> None:
    """Through Prometheus and KEDA, which turn the engines' own metrics into a number."""
    view = create(slow("asked", namespace))
    view.wait_ready(timeout_s=400)
    scaled = sample("hpa-requests.yaml", view, maxReplicaCount=MOST)
    (trigger,) = scaled["spec"]["triggers"]
    # KEDA runs beside the cluster's DNS and not in it.
    address = service_url(api, "prometheus", "monitoring", 9090)
    trigger["metadata"] |= {"serverAddress": address, "threshold": "8"}
    paced(scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"], view)
    # Twenty requests at any time, of four seconds each.
    load = Load(view, clients=20, tokens=200)
    with Replicas(view) as replicas:
        api.apply(scaled)
        try:
            out_and_in_twice(load, replicas, least=ASKED)
        finally:
            api.delete("ScaledObject", view.name, namespace)
    assert_slow_and_steady(view, replicas, ASKED)


def test_of_one_that_is_too_fast_ready_and_an_event_say_so(
    api: Api, create: Create, namespace: str
) -> None:
    """Nobody has to answer for the metric: the advice is about behavior."""
    view = create(with_engine(warm_model("hasty", namespace), sim={"load_seconds": 16}))
    view.wait_ready()
    autoscaler = sample("hpa-cpu.yaml", view, maxReplicas=MOST)
    metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "5"}}
    autoscaler["spec"]["metrics"] = [{"type": "External", "external": metric}]
    api.apply(autoscaler)
    wait_event(view, "AutoscalerTooFast")
    ready = view.wait_condition("Ready", "True")
    assert "set periodSeconds of every policy in scaleUp to" in ready["message"]
    for policy in autoscaler["spec"]["behavior"]["scaleUp"]["policies"]:
        policy["periodSeconds"] = 600
    api.apply(autoscaler)
    wait_until(
        "the advice is gone",
        lambda: "behavior" not in view.condition("Ready")["message"],
        timeout_s=30,
        describe=view.conditions,
    )


def test_without_pods_the_scale_has_its_selector(api: Api, create: Create, namespace: str) -> None:
    """An autoscaler gives up on a scale without one, and would never come back from zero."""
    view = create(warm_model("none", namespace, replicas=0))
    view.wait_condition("Ready", "True", {"ScaledToZero"})
    path = f"apis/warmpod.io/v1alpha1/namespaces/{namespace}/warmmodels/none/scale"
    scale = api.request("GET", path)
    assert scale["spec"].get("replicas", 0) == scale["status"].get("replicas", 0) == 0
    assert "warmpod.io/role=serving" in scale["status"]["selector"]
    api.request(
        "PATCH", path, {"spec": {"replicas": 1}}, content_type="application/merge-patch+json"
    )
    view.wait_ready()
    assert api.request("GET", path)["status"]["selector"] == scale["status"]["selector"]


def service_url(api: Api, name: str, namespace: str, port: int) -> str:
    return f"http://{api.get('Service', name, namespace)['spec']['clusterIP']}:{port}"


def _is_there(api: Api, addon: str) -> bool:
    if addon == "prometheus":
        return api.find("Service", "prometheus", "monitoring") is not None
    try:
        api.request("GET", "apis/keda.sh/v1alpha1")
    except ApiError:
        return False
    return True


@pytest.fixture(autouse=True)
def _only_with_add_ons(request: pytest.FixtureRequest, api: Api) -> None:
    wanted = [name for name in ("prometheus", "keda") if request.node.get_closest_marker(name)]
    if wanted == ["prometheus"] and _is_there(api, "keda"):
        pytest.skip("KEDA answers for external metrics here: hack/cluster/cluster remove keda")
    if missing := [name for name in wanted if not _is_there(api, name)]:
        pytest.skip(f"not in the cluster: {', '.join(missing)} (make autoscaler-test)")
