"""Sampling, rounds and storage, around an API server in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from unit.controller.builders import NAME, NAMESPACE, engine, warm_model
from unit.controller.fake_kube import FakeKube
from warmpod.api import WarmModel
from warmpod.controller.apiserver.kinds import CONFIG_MAP, POD, WARM_MODEL
from warmpod.controller.apiserver.kube import ApiError
from warmpod.controller.forecasting.history import HistoryError
from warmpod.controller.forecasting.keeper import Forecasts
from warmpod.controller.forecasting.metrics import ForecastErrors
from warmpod.controller.forecasting.process import Answer, Task
from warmpod.controller.forecasting.scores import FEWEST
from warmpod.controller.forecasting.series import SHAPES, Shape
from warmpod.controller.forecasting.storage import Storage
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.parsed import Parsed
from warmpod.controller.objects.views import PodView

KEY = (NAMESPACE, NAME)
START = datetime(2030, 1, 1, tzinfo=UTC)
STEP = timedelta(seconds=SHAPES["Day"].step)
SPEC = {"mode": "Scale", "requestsPerPod": 4, "maxReplicas": 8}


@dataclass(frozen=True)
class Load:
    running: int
    waiting: int = 0


class Nothing:
    """A Prometheus that there is not."""

    async def read(self, *_: object) -> list[tuple[datetime, float]]:
        return []


class Past:
    """One with three days."""

    async def read(
        self, model: WarmModel, shape: Shape, now: datetime
    ) -> list[tuple[datetime, float]]:
        return [(now - step * STEP, 12.0) for step in range(3 * shape.season, 0, -1)]


class Broken:
    async def read(self, *_: object) -> list[tuple[datetime, float]]:
        raise HistoryError("no route")


class World:
    def __init__(self) -> None:
        self.kube = FakeKube()
        self.history: Any = Nothing()
        self.cache = Cache()
        self.now = START
        self.loads: dict[str, Load | None] = {}
        self.tasks: list[Task] = []
        self.changed: list[object] = []
        self.version = 100
        self.begin()

    def begin(self) -> None:
        """An operator process."""
        kube: Any = self.kube
        self.forecasts = Forecasts(
            self.cache,
            Parsed(),
            self,
            Storage(kube),
            self.history,
            self.changed.append,
            compute=self.compute,
            now=lambda: self.now,
        )

    def put(self, **spec: Any) -> None:
        self.version += 1
        body = warm_model(**spec)
        body["metadata"] |= {"resourceVersion": str(self.version), "generation": self.version}
        self.cache.upsert(WARM_MODEL, body)

    def pod(self, name: str, load: Load | None) -> None:
        self.loads[name] = load
        self.cache.upsert(POD, engine(name).warm().body())

    async def load(self, pod: PodView) -> Load | None:
        return self.loads[pod.meta.name]

    async def compute(self, tasks: Mapping[str, Task]) -> dict[str, Answer]:
        self.tasks += tasks.values()
        return {name: [task.values[-1]] * task.steps for name, task in tasks.items()}

    async def pass_step(self) -> None:
        await self.forecasts.sample()
        self.now += STEP
        await self.forecasts.forecast()

    async def pass_days(self, days: int) -> None:
        for _ in range(days * SHAPES["Day"].season):
            await self.pass_step()


@pytest.fixture
def world() -> World:
    found = World()
    found.pod("llama-0", Load(6, 2))
    return found


async def test_without_a_forecast_nothing_is_asked_or_kept(world: World) -> None:
    world.put()
    world.loads.clear()
    await world.pass_step()
    assert (world.kube.calls, world.changed) == ([], [])
    assert world.forecasts.status(KEY) is None


async def test_from_the_first_sample_to_pods(world: World) -> None:
    world.put(forecast=SPEC)
    await world.pass_step()
    outlook = world.forecasts.outlook(KEY)
    assert outlook is not None
    assert outlook.reason == "CollectingLoad"
    await world.pass_days(2)
    for _ in range(FEWEST):
        await world.pass_step()
    outlook = world.forecasts.outlook(KEY)
    assert outlook is not None
    assert (outlook.trusted, outlook.pods) == (True, 2)  # 8 requests, 4 a pod
    assert world.changed[-1] == KEY
    registry = CollectorRegistry()
    registry.register(ForecastErrors(world.forecasts.errors))
    line = 'warmpod_forecast_error_pods{by="forecast",model="llama",namespace="models"} 0.0'
    assert line in generate_latest(registry).decode()


async def test_pods_that_do_not_answer_count_as_the_others(world: World) -> None:
    world.put(forecast=SPEC)
    world.pod("llama-1", None)
    await world.pass_step()
    status = world.forecasts.status(KEY)
    assert status is not None
    assert status["load"] == 16


async def test_when_none_answers_it_is_a_gap_and_without_pods_it_is_no_load(world: World) -> None:
    world.put(forecast=SPEC)
    await world.pass_step()
    world.loads["llama-0"] = None
    await world.pass_step()
    assert "load" not in (world.forecasts.status(KEY) or {})
    world.cache.remove(POD, {**engine("llama-0").warm().body()})
    await world.pass_step()
    assert (world.forecasts.status(KEY) or {})["load"] == 0


async def test_it_is_stored_once_an_hour_and_taken_up_by_the_next(world: World) -> None:
    world.put(forecast=SPEC)
    for _ in range(25):
        await world.pass_step()
    assert [call for call in world.kube.writes() if call[1] == "ConfigMap"] == [
        ("apply", "ConfigMap", "llama-warmpod-load"),
    ] * 2
    stored = world.kube.find(CONFIG_MAP, "llama-warmpod-load")
    assert stored is not None
    assert stored["metadata"]["ownerReferences"][0]["uid"] == "uid-llama"
    world.begin()
    await world.pass_step()
    outlook = world.forecasts.outlook(KEY)
    assert outlook is not None
    assert "46 more hours" in outlook.why


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no"), ApiError(500, "Error", "")])
async def test_what_cannot_be_read_is_not_written_over(world: World, error: ApiError) -> None:
    world.put(forecast=SPEC)
    world.kube.fail("get", "ConfigMap", *[error] * 20)
    for _ in range(20):
        await world.pass_step()
    assert world.kube.writes() == []
    assert world.forecasts.outlook(KEY) is None


async def test_a_config_map_of_somebody_else_is_left_alone(world: World) -> None:
    world.put(forecast=SPEC)
    theirs = {"name": "llama-warmpod-load", "namespace": NAMESPACE}
    world.kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": theirs, "data": {}})
    for _ in range(15):
        await world.pass_step()
    assert world.kube.writes() == []


async def test_a_broken_record_is_begun_anew(world: World) -> None:
    world.put(forecast=SPEC)
    for _ in range(13):
        await world.pass_step()
    stored = world.kube.find(CONFIG_MAP, "llama-warmpod-load")
    assert stored is not None
    stored["data"]["series"] = "broken"
    world.kube.put(stored)
    world.begin()
    await world.pass_step()
    assert world.forecasts.outlook(KEY) is not None


async def test_what_a_prometheus_knows_need_not_be_waited_for(world: World) -> None:
    world.history = Past()
    world.begin()
    world.put(forecast=SPEC)
    await world.pass_step()
    assert world.tasks[-1].values == [12.0] * 3 * SHAPES["Day"].season + [8.0]


async def test_one_that_does_not_answer_is_done_without(world: World) -> None:
    world.history = Broken()
    world.begin()
    world.put(forecast=SPEC)
    await world.pass_step()
    assert world.forecasts.outlook(KEY) is not None


async def test_a_new_operator_goes_by_the_last_forecast_until_it_has_its_own(world: World) -> None:
    """Pods that were asked for ahead do not go for an upgrade of the operator."""
    made = {"time": "2030-01-01T00:00:00Z", "pods": 3, "followed": True, "samples": 20}
    world.history = Past()
    world.begin()
    world.put(forecast=SPEC, status={"forecast": made})
    outlook = world.forecasts.outlook(KEY)
    assert outlook is not None
    assert (outlook.pods, outlook.trusted, outlook.until) == (3, True, START + 2 * STEP)
    assert world.forecasts.status(KEY) == made
    await world.forecasts.sample()
    await world.forecasts.forecast()
    assert len(world.tasks) == 1, "it does not wait for the end of a step"
    outlook = world.forecasts.outlook(KEY)
    assert outlook is not None
    assert outlook.pods == 3  # 12 requests, 4 a pod
    assert (world.forecasts.status(KEY) or {})["samples"] == 0


@pytest.mark.parametrize(
    ("spec", "told"),
    [({"mode": "Off"}, {"followed": True}), (SPEC, {"followed": False}), (SPEC, {})],
    ids=["switched off", "not followed", "none made"],
)
async def test_a_forecast_that_says_nothing_any_more(
    world: World, spec: dict[str, Any], told: dict[str, Any]
) -> None:
    made = {"time": "2030-01-01T00:00:00Z", "pods": 3, **told} if told else {}
    world.put(forecast=spec, status={"forecast": made})
    assert world.forecasts.outlook(KEY) is None
    assert world.forecasts.status(KEY) == (made if made and spec is SPEC else None)


async def test_a_changed_spec_is_judged_at_once(world: World) -> None:
    world.history = Past()
    world.begin()
    world.put(forecast=SPEC)
    await world.pass_step()
    await world.forecasts.forecast()
    assert len(world.tasks) == 1, "the step has not ended"
    world.put(forecast={**SPEC, "mode": "Observe"})
    await world.forecasts.forecast()
    outlook = world.forecasts.outlook(KEY)
    assert outlook is not None
    assert outlook.reason == "ForecastObserved"


async def test_switched_off_it_is_forgotten(world: World) -> None:
    world.put(forecast=SPEC)
    await world.pass_step()
    world.put(forecast={"mode": "Off"})
    world.changed.clear()
    await world.pass_step()
    assert world.forecasts.outlook(KEY) is None
    assert world.changed == [KEY]
