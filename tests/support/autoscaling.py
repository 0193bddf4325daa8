"""Load from inside the cluster, and what an autoscaler makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from support.api import JsonObject
from support.background import Background
from support.models import ENGINE_SIM, ModelView
from support.waiting import wait_until

Value = TypeVar("Value", int, float)

CLIENT = Path(__file__).with_name("load_client.py")
NAME = "load"


@dataclass(frozen=True)
class Load:
    """Users of a model, as a Deployment that has one pod or none."""

    view: ModelView
    clients: int
    tokens: int
    period_s: float = 0.0

    def begin(self) -> None:
        self.view.api.apply(self._deployment())
        wait_until("the load has begun", lambda: self._pods() == 1, timeout_s=60)

    def end(self) -> None:
        body = {"spec": {"replicas": 0}}
        self.view.api.patch("Deployment", NAME, self.view.namespace, body, subresource="scale")
        wait_until("the load has ended", lambda: self._pods() == 0, timeout_s=60)

    def _pods(self) -> int:
        deployment = self.view.api.get("Deployment", NAME, self.view.namespace)
        return int(deployment["status"].get("readyReplicas", 0))

    def _deployment(self) -> JsonObject:
        variables = {
            "URL": f"{self.view.name}.{self.view.namespace}.svc.cluster.local:8000",
            "MODEL": self.view.name,
            "CLIENTS": str(self.clients),
            "TOKENS": str(self.tokens),
            "PERIOD": str(self.period_s),
        }
        container = {
            "name": "client",
            "image": ENGINE_SIM,
            "command": ["python3", "-c", CLIENT.read_text()],
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
        }
        labels = {"app": NAME}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": self.view.namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
                },
            },
        }


@dataclass
class Replicas(Background):
    """What an autoscaler asked for, and how many pods served, over time."""

    view: ModelView
    asked: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)

    def step(self) -> None:
        model = self.view.get()
        self.asked.append(model["spec"]["replicas"])
        self.ready.append(model["status"].get("readyReplicas", 0))

    def wait_for(self, least: int, most: int, *, timeout_s: float = 400) -> None:
        """Until a number within these bounds is asked for, and just as many pods serve."""

        def there() -> bool:
            if not self.ready:
                return False
            asked, ready = self.asked[-1], self.ready[-1]
            return asked == ready and least <= asked <= most

        wait_until(
            f"{least} to {most} replicas",
            there,
            timeout_s=timeout_s,
            describe=lambda: f"{self.steps()}\n{self.view.conditions()}",
        )

    def steps(self) -> list[int]:
        """What was asked for, each change once."""
        return _changes(self.asked)


@dataclass
class EngineCpu(Background):
    """Processor time of a model's warm engines, as metrics-server tells it, in cores."""

    view: ModelView
    period_s: float = field(default=2.0, kw_only=True)
    totals: list[float] = field(default_factory=list)

    def settled(self) -> bool:
        """Whether the last two measurements agree; each is a mean over metrics-server's 10 s."""
        measured = _changes(self.totals)
        if len(measured) < 3:
            return False
        before, last = measured[-2:]
        return abs(last - before) <= 0.15 * before

    def step(self) -> None:
        path = f"apis/metrics.k8s.io/v1beta1/namespaces/{self.view.namespace}/pods"
        found = self.view.api.request("GET", path)["items"]
        ready = {
            pod["metadata"]["name"]
            for pod in self.view.engine_pods()
            if pod["status"].get("podIP") in self.view.ready_addresses()
        }
        used = [_engine_cores(pod) for pod in found if pod["metadata"]["name"] in ready]
        if used:
            self.totals.append(sum(used))


def _engine_cores(pod: JsonObject) -> float:
    usage = {c["name"]: c["usage"]["cpu"] for c in pod["containers"]}.get("engine", "0")
    for suffix, factor in {"n": 1e-9, "u": 1e-6, "m": 1e-3}.items():
        if usage.endswith(suffix):
            return float(usage[:-1]) * factor
    return float(usage)


def _changes(values: list[Value]) -> list[Value]:
    return [now for number, now in enumerate(values) if number == 0 or now != values[number - 1]]
