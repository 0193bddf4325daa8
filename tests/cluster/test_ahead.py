"""Ahead of demand: warm-up that is asked for again, a window of a schedule, a forecast.

The models live side by side, because a window opens by the clock and no sooner.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests

from support import operator, sidecar
from support.api import Api, JsonObject
from support.events import wait_event
from support.history import ConditionHistory, of_model
from support.models import ModelView, warm_model
from support.namespaces import temporary_namespace
from support.promotion import staying
from support.waiting import wait_until
from warmpod.api import WarmModel
from warmpod.controller.forecasting.scores import FEWEST, Score, Scores
from warmpod.controller.forecasting.series import SHAPES, Series
from warmpod.controller.forecasting.storage import Stored, build
from warmpod.protocol import TOKEN_AUDIENCE, WARM_NOW_ANNOTATION

pytestmark = pytest.mark.alone

DAY = SHAPES["Day"]
FORECAST: JsonObject = {"mode": "Scale", "requestsPerPod": 4, "maxReplicas": 2}
#: Requests at a time, for one pod.
PEAK = 3.0
#: A window that begins this soon leaves pods more than a minute to become warm.
SOONEST = timedelta(seconds=20)
LEAD_S, DURATION_S = 120, 60
GRANTED, OTHER = "pipeline", "visitor"


@dataclass(frozen=True)
class Models:
    asked: ModelView
    """Serves, and is told to play its warm-up again."""
    planned: ModelView
    expected: ModelView
    """Forecasts for it were good so far."""
    doubted: ModelView
    """Those for it were worse than its spec."""
    windows: ConditionHistory
    """What was said about the windows of `planned`."""


@pytest.fixture(scope="module")
def models(api: Api) -> Iterator[Models]:
    with temporary_namespace(api, "test-ahead-") as namespace:
        views = [ModelView(api, name, namespace) for name in ("planned", "expected", "doubted")]
        for view in views:
            api.apply(warm_model(view.name, namespace, replicas=0))
        asked = ModelView(api, "asked", namespace)
        api.apply(warm_model("asked", namespace))
        planned, expected, doubted = views
        planned.wait_resident()
        assert planned.engine_pods() == [], "nodes are prefetched whatever is asked for"
        windows = of_model(planned, "ScaledAhead")
        change(planned, schedule=[window(datetime.now(UTC))])
        remember(expected, Score(forecast=1, scheduled=0, naive=1, needed=1))
        remember(doubted, Score(forecast=1, scheduled=0, naive=0, needed=0))
        yield Models(asked, planned, expected, doubted, windows)


def change(view: ModelView, **spec: object) -> None:
    view.api.patch("WarmModel", view.name, view.namespace, {"spec": spec})


def window(now: datetime) -> JsonObject:
    """One that opens within a minute and a half; pods are asked for at once."""
    begins = (now + SOONEST).replace(second=0, microsecond=0) + timedelta(minutes=1)
    return {
        "name": "soon",
        "cron": f"{begins.minute} {begins.hour} {begins.day} {begins.month} *",
        "durationSeconds": DURATION_S,
        "leadSeconds": LEAD_S,
        "replicas": 1,
        "standby": 1,
    }


def remember(view: ModelView, score: Score) -> None:
    """Three days of load with a peak at this time of the day, and how good forecasts of it were, as
    an operator of those days would have kept them."""
    series, now = Series(DAY), datetime.now(UTC)
    for back in range(3 * DAY.season, 0, -1):
        near = min(back % DAY.season, -back % DAY.season) <= 12
        series.add(PEAK if near else 0.0, now - timedelta(seconds=back * DAY.step))
    scores = Scores(DAY.season, [score] * FEWEST)
    model = WarmModel.parse(view.get())
    view.api.apply(build(model, Stored("Day", 4, series.dump(), scores.dump())))
    change(view, forecast=FORECAST)


def test_a_window_opens(models: Models) -> None:
    view = models.planned
    models.windows.wait_for("True", after=0, timeout_s=30, reasons=["ScheduleActive"])

    def raised() -> bool:
        filled = view.condition("StandbyReady").get("status") == "True"
        return filled and len(staying(view, "standby")) == len(view.ready_addresses()) == 1

    wait_until("one pod serves and one stands by", raised, timeout_s=120, describe=view.conditions)


def test_warm_up_is_played_again_when_asked(api: Api, models: Models, kubeconfig: Path) -> None:
    view = models.asked
    view.wait_ready()
    (pod,) = view.engine_pods()
    ready = ConditionHistory(api, "Pod", view.namespace, "Ready", lambda p: is_same(p, pod))
    wait_until("the pod is seen", ready.last, timeout_s=30)
    seen = ready.mark()

    by_hand = kubectl_warm_now(view, kubeconfig)
    wait_played(view, pod, by_hand, 1)
    annotation = {"metadata": {"annotations": {WARM_NOW_ANNOTATION: "commit-1"}}}
    api.patch("WarmModel", view.name, view.namespace, annotation)
    wait_played(view, pod, "commit-1", 2)

    allow(api, view.namespace)
    token, tokens = token_of(api, view.namespace, GRANTED), TOKEN_AUDIENCE
    assert post(view, "commit-2", "no token").status_code == 401
    for_api_server = token_of(api, view.namespace, GRANTED, audience="")
    assert post(view, "commit-2", for_api_server).status_code == 401, f"it is not for {tokens}"
    refused = post(view, "commit-2", token_of(api, view.namespace, OTHER))
    assert refused.status_code == 403
    assert f"{view.namespace}:{OTHER} may not update" in refused.json()["error"]
    wait_until("it may", lambda: post(view, "commit-2", token).status_code == 202, timeout_s=30)
    wait_played(view, pod, "commit-2", 3)
    assert post(view, "commit-2", token).status_code == 202
    assert post(view, "commit-3", token).json() == {"id": "commit-3"}
    wait_played(view, pod, "commit-3", 4)

    wait_event(view, "WarmedAgain", before=3)
    assert ready.since(seen) == [], "the gate stays open"


def test_a_forecast_asks_for_pods_ahead(api: Api, models: Models) -> None:
    view = models.expected
    view.wait_condition("ScaledAhead", "True", {"ForecastActive"}, timeout_s=120)
    wait_until("a pod serves", view.ready_addresses, timeout_s=120, describe=view.conditions)
    (pod,) = view.engine_pods()
    first = forecast(view)
    assert (first["followed"], first["pods"], first["samples"]) == (True, 1, FEWEST)

    said = of_model(view, "ScaledAhead")
    wait_until("it is seen", said.last, timeout_s=30)
    before = said.mark()
    operator.scale(api, 0)
    operator.scale(api, 1)
    wait_until(
        "the new operator has a forecast of its own",
        lambda: forecast(view)["time"] != first["time"],
        timeout_s=120,
        describe=view.get,
    )
    assert said.since(before) == [], "it is followed without a gap"
    assert [pod["metadata"]["uid"] for pod in view.engine_pods()] == [pod["metadata"]["uid"]]

    change(view, forecast={"mode": "Observe"})
    view.wait_condition("ScaledAhead", "False", {"ForecastObserved"})
    wait_until("the pod goes", lambda: not view.engine_pods(), timeout_s=180)


def test_a_forecast_that_was_worse_than_the_spec_is_not_followed(models: Models) -> None:
    view = models.doubted
    view.wait_condition("ScaledAhead", "False", {"ForecastWorse"}, timeout_s=120)
    assert forecast(view)["followed"] is False
    assert (forecast(view)["errorPods"], forecast(view)["scheduleErrorPods"]) == ("1.00", "0.00")
    assert view.engine_pods() == []


def test_the_window_closes(models: Models) -> None:
    view, windows = models.planned, models.windows
    windows.wait_for("False", after=0, timeout_s=240, reasons=["AsSpecified"])
    wait_until("all pods go", lambda: not view.engine_pods(), timeout_s=180)


def is_same(found: JsonObject, pod: JsonObject) -> bool:
    return bool(found["metadata"]["uid"] == pod["metadata"]["uid"])


def forecast(view: ModelView) -> JsonObject:
    told: JsonObject = view.get()["status"]["forecast"]
    return told


def wait_played(view: ModelView, pod: JsonObject, request: str, times: int) -> None:
    """Until the pod was told, and has played its warm-up that often since it was warm."""
    wait_until(
        f"{request} is told",
        lambda: view.get()["status"].get("warmNow", {}).get("id") == request,
        timeout_s=30,
        describe=lambda: view.get()["status"].get("warmNow"),
    )
    told = view.get()["status"]["warmNow"]
    assert (told["pods"], told["failed"]) == (1, 0)

    def played() -> bool:
        replay = sidecar.status(pod)["replay"]
        return bool(replay["times"] == times and not replay["running"])

    wait_until(
        f"warm-up was played {times} times",
        played,
        timeout_s=60,
        describe=lambda: sidecar.status(pod)["replay"],
    )
    assert sidecar.status(pod)["replay"]["problem"] == ""


def kubectl_warm_now(view: ModelView, kubeconfig: Path) -> str:
    """Returns what it says that it has asked for."""
    command = [sys.executable, "-m", "warmpod.cli.main", "now", view.name, "-n", view.namespace]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.removeprefix("asked for as ").partition(";")[0]


def allow(api: Api, namespace: str) -> None:
    """One service account may update WarmModels, and another may not."""
    for name in (GRANTED, OTHER):
        metadata = {"name": name, "namespace": namespace}
        api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["warmpod.io"], "resources": ["warmmodels"], "verbs": ["update"]}
    about = {
        "apiVersion": f"{group}/v1",
        "metadata": {"name": GRANTED, "namespace": namespace},
    }
    api.apply({**about, "kind": "Role", "rules": [rule]})
    api.apply(
        {
            **about,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": group, "kind": "Role", "name": GRANTED},
            "subjects": [{"kind": "ServiceAccount", "name": GRANTED, "namespace": namespace}],
        }
    )


def token_of(api: Api, namespace: str, account: str, audience: str = TOKEN_AUDIENCE) -> str:
    """Without an audience, one for the API server."""
    answer = api.request(
        "POST",
        f"api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience] if audience else []},
        },
    )
    return str(answer["status"]["token"])


def post(view: ModelView, request: str, token: str) -> requests.Response:
    """Asks the operator itself, as a pipeline without a client of Kubernetes does."""
    service = view.api.get("Service", "warmpod-operator-metrics", operator.NAMESPACE)
    path = f"v1/namespaces/{view.namespace}/warmmodels/{view.name}/warm"
    with requests.Session() as session:
        session.trust_env = False  # no proxy between the tests and the cluster
        return session.post(
            f"http://{service['spec']['clusterIP']}:8080/{path}",
            json={"id": request},
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
        )
