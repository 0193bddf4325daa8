"""Samples the load of WarmModels that have a forecast, and has forecasts made as steps end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeGuard

from warmpod.api import InvalidSpec, WarmModel
from warmpod.controller import demand
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.clients.sidecars import Load
from warmpod.controller.demand import Outlook
from warmpod.controller.forecasting import judge, process
from warmpod.controller.forecasting.history import History, HistoryError
from warmpod.controller.forecasting.judge import Judgement
from warmpod.controller.forecasting.process import Answer, Failed, Task
from warmpod.controller.forecasting.record import Record
from warmpod.controller.forecasting.scores import Errors
from warmpod.controller.forecasting.storage import Storage
from warmpod.controller.forecasting.told import last_told, mode_of, shape_of
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.engine_pods import is_serving
from warmpod.controller.objects.parsed import Parsed
from warmpod.controller.objects.views import Key, ModelView, PodView, View
from warmpod.resources.names import COMPONENT_LABEL

logger = logging.getLogger(__name__)

#: Seconds between samples: the peak of a step comes from twenty of them.
SAMPLE_SECONDS = 15.0
#: Seconds between writes of what was recorded, for each model.
STORE_SECONDS = 3600.0
#: Until a record that could not be read is tried again.
RETRY = timedelta(minutes=5)
#: Pods that are asked at a time.
AT_A_TIME = 32


class Loads(Protocol):
    async def load(self, pod: PodView) -> Load | None:
        """What a pod's engine does now; None where it does not answer."""


Compute = Callable[[Mapping[str, Task]], Awaitable[dict[str, Answer]]]


class Forecasts:
    def __init__(
        self,
        cache: Cache,
        parsed: Parsed,
        loads: Loads,
        storage: Storage,
        history: History,
        changed: Callable[[Key], None],
        *,
        compute: Compute = process.compute,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`changed` is told of each WarmModel that has a new forecast."""
        self._cache = cache
        self._parsed = parsed
        self._loads = loads
        self._storage = storage
        self._history = history
        self._changed = changed
        self._compute = compute
        self._now = now
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._records: dict[Key, Record] = {}
        self._stored: dict[Key, datetime] = {}
        """When each was last read or written, or that was tried."""

    def outlook(self, key: Key) -> Outlook | None:
        judgement = self._judgement(key)
        if judgement is not None:
            return judgement.outlook
        view = self._cache.model(key)
        return judge.remembered(last_told(view), shape_of(view)) if view is not None else None

    def status(self, key: Key) -> Mapping[str, object] | None:
        """As `status.forecast`; None while there is nothing to tell. Until the first forecast it
        stays as it is."""
        judgement, view = self._judgement(key), self._cache.model(key)
        if judgement is not None:
            return judgement.status
        return (last_told(view) or None) if view is not None else None

    def _judgement(self, key: Key) -> Judgement | None:
        record = self._records.get(key)
        return record.judgement if record else None

    def errors(self) -> Iterator[tuple[Key, Errors]]:
        for key, record in sorted(self._records.items()):
            if record.errors.samples:
                yield key, record.errors

    def forget(self, key: Key) -> None:
        self._records.pop(key, None)
        self._stored.pop(key, None)

    async def keep(self) -> None:
        """For ever. Samples do not wait for forecasts, which may take minutes."""
        await asyncio.gather(_repeat(self.sample), _repeat(self.forecast))

    async def sample(self) -> None:
        """One sample of every model that has a forecast."""
        models = dict(self._models())
        for key in [key for key in self._records if key not in models]:
            self.forget(key)
            self._changed(key)
        await asyncio.gather(*(self._sample(key, model) for key, model in models.items()))

    async def forecast(self) -> None:
        """What is due: new forecasts where a step has ended or the spec has changed, and what is
        stored."""
        now = self._now()
        known = {key: model for key, model in self._models() if key in self._records}
        ended = {
            key: model
            for key, model in known.items()
            if self._records[key].due(model.spec.forecast, now)
        }
        if ended:
            await self._round(ended, now)
        for key, model in known.items():
            await self._store(key, model, now)

    def _models(self) -> Iterator[tuple[Key, WarmModel]]:
        for view in self._cache.models():
            if mode_of(view) == "Off" or view.meta.deleting:
                continue
            model = self._parsed.of(view)
            if not isinstance(model, InvalidSpec):
                yield view.meta.key, model

    async def _sample(self, key: Key, model: WarmModel) -> None:
        record = self._records.get(key)
        if record is None or record.season != model.spec.forecast.season:
            record = await self._begin(key, model)
        if record is None:
            return
        load = await self._load(key)
        if load is not None:
            record.series.add(load, self._now())

    async def _begin(self, key: Key, model: WarmModel) -> Record | None:
        """With what was stored; None until it is known whether there is something."""
        tried = self._stored.get(key)
        if key not in self._records and tried is not None and self._now() - tried < RETRY:
            return None
        self._stored[key] = self._now()
        forecast = model.spec.forecast
        record = Record(forecast.season, forecast.requests_per_pod or 1, self._now())
        try:
            stored = await self._storage.read(model)
        except (ApiError, Unreachable) as error:
            logger.warning("%s/%s: recorded load cannot be read: %s", *key, error)
            return None
        if stored is not None:
            try:
                record.restore(stored)
            except ValueError as error:
                logger.warning("%s/%s: recorded load is begun anew: %s", *key, error)
        else:
            await self._look_back(key, model, record)
        self._records[key] = record
        return record

    async def _look_back(self, key: Key, model: WarmModel, record: Record) -> None:
        """With what a Prometheus knows."""
        try:
            for at, load in await self._history.read(model, record.shape, self._now()):
                record.series.add(load, at)
        except HistoryError as error:
            logger.warning("%s/%s: no load of earlier days: %s", *key, error)

    async def _load(self, key: Key) -> float | None:
        """Of all serving pods: those that do not answer are taken to do as much as the others. None
        while nobody can tell, which is so where pods should serve and none does."""
        found = list(filter(_serves, self._cache.owned(POD, key)))
        if not found:
            return 0.0
        pods = [pod for pod in found if pod.is_true("Ready")]
        answers = await asyncio.gather(*map(self._ask, pods))
        known = [load.running + load.waiting for load in answers if load is not None]
        return sum(known) * len(pods) / len(known) if known else None

    async def _ask(self, pod: PodView) -> Load | None:
        async with self._turns:
            return await self._loads.load(pod)

    async def _round(self, ended: Mapping[Key, WarmModel], now: datetime) -> None:
        tasks: dict[str, Task] = {}
        for key, model in ended.items():
            record = self._records[key]
            record.close(model, now)
            task = record.task(self._start_seconds(key), now)
            if task is not None:
                tasks["/".join(key)] = task
        answers = await self._computed(tasks)
        for key, model in ended.items():
            name = "/".join(key)
            still = self._records.get(key)
            if still is not None and name in tasks:
                still.take(model, tasks[name], answers[name], now)
            self._changed(key)

    async def _computed(self, tasks: Mapping[str, Task]) -> Mapping[str, Answer]:
        if not tasks:
            return {}
        answers = await self._compute(tasks)
        for name, answer in answers.items():
            if isinstance(answer, Failed):
                logger.warning("%s: load could not be forecast: %s", name, answer.why)
        return answers

    def _start_seconds(self, key: Key) -> float | None:
        view = self._cache.model(key)
        return demand.measured(_status(view)).start_seconds if view else None

    async def _store(self, key: Key, model: WarmModel, now: datetime) -> None:
        record = self._records.get(key)
        if record is None or (now - self._stored[key]).total_seconds() < STORE_SECONDS:
            return
        self._stored[key] = now
        await self._storage.write(model, record.stored())


async def _repeat(work: Callable[[], Awaitable[None]]) -> None:
    """Whatever goes wrong here, the rest of the operator does without forecasts."""
    while True:
        try:
            await work()
        except Exception:
            logger.exception("forecasts: tried again in %.0f s", SAMPLE_SECONDS)
        await asyncio.sleep(SAMPLE_SECONDS)


def _status(view: ModelView) -> Mapping[str, Any]:
    return view.body.get("status") or {}


def _serves(pod: View) -> TypeGuard[PodView]:
    return (
        isinstance(pod, PodView)
        and pod.meta.labels.get(COMPONENT_LABEL) == "engine"
        and is_serving(pod)
        and not pod.meta.deleting
    )
