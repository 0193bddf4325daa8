"""How far forecasts are from what comes, on two generated loads; needs no cluster.

python -m bench.forecast

The loads have the shape of published traces of model serving: one follows the working day, with
noise and a quieter weekend; the other has few requests and bursts that come at random. Both are the
same in each run. Each forecast is made as the operator makes it, by its own process, from what it
would have recorded until then; in pods, as the operator judges it.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import exp, pi, sin

from support.api import JsonObject
from warmpod.api import WarmModel
from warmpod.controller import demand
from warmpod.controller.forecasting.judge import steps_ahead
from warmpod.controller.forecasting.process import Failed, Task, compute
from warmpod.controller.forecasting.scores import pods_for
from warmpod.controller.forecasting.series import SHAPES

SHAPE = SHAPES["Day"]
#: A Monday.
START = datetime(2030, 1, 7, tzinfo=UTC)
LEARNT_DAYS, DAYS = 5, 2
#: Every so many steps one forecast is made.
EVERY = 4
#: Of small and of large models.
START_SECONDS = (300, 1800)
PER_POD = 8
SEED = 6
#: What a person who knows the load would write.
SCHEDULE = [
    {"name": "day", "cron": "0 8 * * *", "durationSeconds": 10 * 3600, "replicas": 8},
    {"name": "evening", "cron": "0 18 * * *", "durationSeconds": 4 * 3600, "replicas": 4},
]


def daily(step: int, source: random.Random) -> float:
    """Peaks at 14 h, is low at night, and a third lower on the weekend."""
    hour = step * SHAPE.step / 3600
    shape = (1 + sin(2 * pi * (hour % 24 - 8) / 24)) / 2
    weekend = 0.67 if int(hour / 24) % 7 > 4 else 1.0
    return max(0.0, weekend * 60 * shape**1.5 + source.gauss(0, 3))


class Bursts:
    """About six a day, each over within half an hour."""

    def __init__(self) -> None:
        self._height = 0.0

    def __call__(self, step: int, source: random.Random) -> float:
        if source.random() < 6 / SHAPE.season:
            self._height = source.uniform(20, 60)
        self._height *= exp(-1 / 3)
        return max(0.0, 4 + self._height + source.gauss(0, 1))


@dataclass(frozen=True)
class Forecasted:
    at: int
    """The step that the forecast is about."""
    load: float


def load(shape: Callable[[int, random.Random], float]) -> list[float]:
    source = random.Random(SEED)
    return [shape(step, source) for step in range((LEARNT_DAYS + DAYS) * SHAPE.season)]


async def forecasts(values: list[float], ahead: int) -> tuple[list[Forecasted], float]:
    """And the seconds that one takes."""
    first = LEARNT_DAYS * SHAPE.season
    ends = range(first, len(values) - ahead, EVERY)
    tasks = {str(end): Task(values[:end], SHAPE.season, ahead) for end in ends}
    started = time.perf_counter()
    answers = await compute(tasks)
    seconds = (time.perf_counter() - started) / len(tasks)
    found = []
    for end in ends:
        answer = answers[str(end)]
        if isinstance(answer, Failed):
            raise RuntimeError(answer.why)
        found.append(Forecasted(end + ahead - 1, answer[-1]))
    return found, seconds


def scheduled(step: int) -> int:
    spec = {
        "replicas": 1,
        "model": {"image": "registry.example.com/model:1"},
        "engine": {"image": "registry.example.com/vllm:1"},
        "schedule": SCHEDULE,
    }
    metadata = {"name": "m", "namespace": "n", "uid": "u"}
    model = WarmModel.parse({"metadata": metadata, "spec": spec})
    return demand.scheduled(model, START + timedelta(seconds=step * SHAPE.step))


def errors(values: list[float], made: list[Forecasted], ahead: int) -> JsonObject:
    """Mean absolute errors in pods and in requests, and the share of the time that pods lack."""
    said: dict[str, list[float]] = {
        "forecast": [f.load for f in made],
        "last season": [values[f.at - SHAPE.season] for f in made],
        "last value": [values[f.at - ahead] for f in made],
    }
    pods = {name: [pods_for(load, PER_POD) for load in found] for name, found in said.items()}
    pods["schedule"] = [scheduled(f.at) for f in made]
    came = [values[f.at] for f in made]
    needed = [pods_for(load, PER_POD) for load in came]
    return {
        "requests": {name: _mean_error(found, came) for name, found in said.items()},
        "pods": {name: _mean_error(found, needed) for name, found in pods.items()},
        "too_few_pods": {
            name: round(statistics.mean(a < b for a, b in zip(found, needed, strict=True)), 3)
            for name, found in pods.items()
        },
    }


def _mean_error(said: list[float] | list[int], came: list[float] | list[int]) -> float:
    return round(statistics.mean(abs(a - b) for a, b in zip(said, came, strict=True)), 2)


def measure() -> JsonObject:
    found: JsonObject = {"step_seconds": SHAPE.step, "requests_per_pod": PER_POD}
    for name, shape in (("daily", daily), ("bursts", Bursts())):
        values = load(shape)
        found[name] = {f"starts_in_{seconds}_s": _one(values, seconds) for seconds in START_SECONDS}
    return found


def _one(values: list[float], start_seconds: int) -> JsonObject:
    ahead = steps_ahead(SHAPE, start_seconds)
    made, seconds = asyncio.run(forecasts(values, ahead))
    counts = {"forecasts": len(made), "seconds_each": round(seconds, 2)}
    return counts | errors(values, made, ahead)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
