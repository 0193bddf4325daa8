"""The operator process: puts the parts together and runs them until a signal or a loss."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, cast

import aiohttp
import kopf
from kubernetes.aio.client import Configuration
from prometheus_client import CollectorRegistry

from warmpod.controller.accounting.accounts import Accounts
from warmpod.controller.accounting.metrics import AccountsCollector
from warmpod.controller.apiserver import events
from warmpod.controller.apiserver.kinds import (
    AUTOSCALER,
    CACHED,
    LEASE,
    NODE,
    OPTIONAL,
    WARM_MODEL,
    Kind,
)
from warmpod.controller.apiserver.kube import (
    ApiError,
    Kube,
    Object,
    Unreachable,
    bearer_token,
    load_configuration,
)
from warmpod.controller.apiserver.lease import Lease
from warmpod.controller.apply import Applier
from warmpod.controller.clients.resolver import Resolver
from warmpod.controller.clients.sidecars import Sidecars
from warmpod.controller.forecasting.history import History
from warmpod.controller.forecasting.keeper import Forecasts
from warmpod.controller.forecasting.metrics import ForecastErrors
from warmpod.controller.forecasting.storage import Storage
from warmpod.controller.nodes.actions import NodeActions
from warmpod.controller.nodes.checks import Checks
from warmpod.controller.nodes.disks import Disks
from warmpod.controller.nodes.fleet import Fleet
from warmpod.controller.nodes.sizes import Sizes
from warmpod.controller.nodes.taints import StartupTaints
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.parsed import Parsed
from warmpod.controller.objects.sweep import Sweeper
from warmpod.controller.objects.views import Key
from warmpod.controller.observe import Observer
from warmpod.controller.pool.calls import Calls
from warmpod.controller.pool.idle import Idle
from warmpod.controller.pool.roles import Roles
from warmpod.controller.reconcile import Reconciler
from warmpod.controller.runtime import health, logs
from warmpod.controller.runtime.background import Background
from warmpod.controller.runtime.health import Health
from warmpod.controller.runtime.workqueue import WorkQueue, run_worker
from warmpod.controller.settings import InvalidSettings, OperatorSettings, from_environment
from warmpod.controller.telling.gates import Gates
from warmpod.controller.telling.metrics import Metrics
from warmpod.controller.telling.recorder import Recorder
from warmpod.controller.telling.residency import Residency
from warmpod.controller.triggers import Triggers
from warmpod.controller.triggers.http import Endpoint
from warmpod.controller.triggers.reviews import Reviews
from warmpod.registry.session import new_session
from warmpod.resources.settings import Settings

logger = logging.getLogger(__name__)

WORKERS = 8
#: Seconds between looks for the CRD, before it is installed.
CRD_PERIOD = 5.0


class Operator:
    """All parts, wired; they live in one event loop."""

    def __init__(
        self,
        settings: OperatorSettings,
        kube: Kube,
        session: aiohttp.ClientSession,
        configuration: Configuration,
    ) -> None:
        self.settings = settings
        self.kube = kube
        self.counters = CollectorRegistry()
        self.gates = Gates()
        self.residency = Residency()
        self.queue: WorkQueue[Key] = WorkQueue(asyncio.get_running_loop().call_later)
        self.sizes = Sizes(session, self.answered)
        self.disks = Disks(configuration, self.answered)
        self.fleet = Fleet(
            settings.pulls_per_registry,
            Checks(self.sizes, self.disks),
            self.queue.add,
            self.residency.lost,
        )
        self.accounts = Accounts(settings.gpu_hour_price)
        self.cache = Cache(
            self.gates.changed, self.residency.changed, self.fleet.changed, self.accounts.changed
        )
        self.metrics = Metrics(self.counters, self.cache)
        self.counters.register(AccountsCollector(self.accounts))
        self.metrics.queue_depth.set_function(lambda: len(self.queue))
        self.metrics.failing.set_function(lambda: self.queue.failing)
        self.resolver = Resolver(session, self.queue.add)
        self.sweeper = Sweeper(kube, self.cache, settings.watch_namespaces, self.queue.add)
        self.lease = Lease(kube, settings.namespace, settings.identity)
        self.health = Health(heartbeat_watched=settings.heartbeat_watched)
        self.health.renewed_at = lambda: self.lease.renewed_at
        self.actions = NodeActions(kube, self.cache, self.metrics)
        self.taints = StartupTaints(self.cache, self.fleet, self.actions)
        idle, parsed = Idle(), Parsed()
        self.sidecars = Sidecars(kube, session, settings.namespace, settings.service_account)
        self.calls = Calls(self.sidecars, idle, self.queue.add)
        self.triggers = Triggers(self.sidecars, self.queue.add)
        self.forecasts = Forecasts(
            self.cache,
            parsed,
            self.sidecars,
            Storage(kube),
            History(session, settings.prometheus_url),
            self.queue.add,
        )
        self.counters.register(ForecastErrors(self.forecasts.errors))
        rendering = Settings(settings.operator_image, settings.user)
        self.reconciler = Reconciler(
            kube,
            self.cache,
            Observer(
                kube,
                self.cache,
                parsed,
                self.resolver,
                self.fleet,
                self.accounts,
                rendering,
                idle,
                outlook=self.forecasts.outlook,
            ),
            Roles(kube, self.cache, self.metrics),
            self.calls,
            Applier(kube, self.cache, self.metrics),
            self.actions,
            Recorder(kube, self.metrics, settings.identity),
            self.metrics,
            self.gates,
            self.residency,
            self.triggers,
            self.forecasts,
        )

    def receive(self, kind: Kind, change: str | None, obj: Object) -> None:
        """One watch event."""
        self.metrics.event_seen()
        if kind is LEASE:
            if obj["metadata"].get("namespace") == self.settings.namespace:
                self.health.heartbeat()
            return
        if change is None:
            self.sweeper.relisted(kind)
        take = self.cache.remove if change == "DELETED" else self.cache.upsert
        key = take(kind, obj)
        if key is not None:
            self.queue.add(key)

    def endpoint(self) -> Endpoint:
        """Where warm-up is asked for again."""
        return Endpoint(
            Reviews(self.kube),
            lambda: self.health.ready,
            lambda key: self.cache.model(key) is not None,
            self.triggers.post,
        )

    def answered(self, key: Key) -> None:
        """What was asked for a WarmModel about images or disks is known now."""
        self.fleet.answered(key)

    async def find_optional(self) -> None:
        """Kinds that are watched where the operator has the right to, which is not needed for
        anything else. Raises ApiError, Unreachable."""
        self.fleet.watched = await self._may_list(
            NODE,
            (None,),
            "prefetch pods start without taking turns, and without a look at the nodes' disks",
        )
        autoscalers = await self._may_list(
            AUTOSCALER,
            self.settings.watch_namespaces or (None,),
            "nobody says so when one is faster than pods get warm",
        )
        found = {NODE: self.fleet.watched, AUTOSCALER: autoscalers}
        self.sweeper.kinds = (*(kind for kind in OPTIONAL if found[kind]), *CACHED)

    async def _may_list(self, kind: Kind, namespaces: Iterable[str | None], without: str) -> bool:
        for namespace in namespaces:
            try:
                await self.kube.request("GET", kind.path(namespace), query={"limit": 1})
            except ApiError as error:
                if error.status != 403:
                    raise
                refusal = error.message
                logger.warning("%s may not be listed, so %s: %s", kind.plural, without, refusal)
                return False
        return True

    async def worker(self) -> None:
        await run_worker(self.queue, self.reconciler, self.finished, (ApiError, Unreachable))

    def finished(self, key: Key, seconds: float, error: BaseException | None) -> None:
        self.metrics.reconciled(seconds, error)
        if self.cache.model(key) is None:
            self.queue.forget(key)

    async def wait_for_crd(self) -> None:
        """kopf reads what the API server offers once, at its start."""
        path = f"/apis/{WARM_MODEL.group}/{WARM_MODEL.version}"
        while True:
            try:
                await self.kube.request("GET", path)
                return
            except (ApiError, Unreachable) as error:
                logger.warning("waiting for the CRD of WarmModel: %s", error)
            await asyncio.sleep(CRD_PERIOD)


async def run(settings: OperatorSettings) -> None:
    """Runs until SIGTERM or SIGINT. Raises what kopf cannot recover from."""
    configuration = await load_configuration()
    async with AsyncExitStack() as stack:
        kube = Kube(configuration)
        stack.push_async_callback(kube.close)
        session = await stack.enter_async_context(new_session())
        operator = Operator(settings, kube, session, configuration)
        for asking in (
            operator.resolver,
            operator.sizes,
            operator.disks,
            operator.calls,
            operator.triggers,
        ):
            stack.push_async_callback(asking.close)
        app = health.application(operator.health, operator.counters)
        operator.endpoint().add_to(app)
        runner = await health.serve(app, settings.port)
        stack.push_async_callback(runner.cleanup)
        await operator.wait_for_crd()
        await operator.lease.acquire()
        stack.push_async_callback(operator.lease.release)
        operator.health.lease_held_at = operator.health.clock()
        background = Background()
        stack.push_async_callback(background.stop)
        background.start(operator.lease.keep())
        await operator.sweeper.initially(operator.find_optional)
        operator.health.listed = True
        background.start(operator.sweeper.periodically())
        background.start(operator.forecasts.keep())
        for _ in range(WORKERS):
            background.start(operator.worker())
        if settings.remove_startup_taint and operator.fleet.watched:
            background.start(operator.taints.keep())
        await _listen(operator, configuration)


async def _listen(operator: Operator, configuration: Configuration) -> None:
    async def login() -> dict[str, Any]:
        return await _credentials(configuration)

    if not operator.settings.heartbeat_watched:
        logger.warning(
            "namespace %s is not among WARMPOD_WATCH_NAMESPACES, so /healthz cannot prove that "
            "watch events arrive",
            operator.settings.namespace,
        )
    await kopf.operator(
        registry=events.registry(operator.receive, login, operator.sweeper.kinds),
        settings=events.settings(),
        # kopf's own would ask for a user name, which an arbitrary uid in a container has not.
        identity=cast("Any", operator.settings.identity),
        clusterwide=not operator.settings.watch_namespaces,
        namespaces=operator.settings.watch_namespaces,
    )


async def _credentials(configuration: Configuration) -> dict[str, Any]:
    """The same credentials as our own client's; the token is read anew from its file."""
    token = await bearer_token(configuration)
    return {
        "server": configuration.host,
        "ca_path": configuration.ssl_ca_cert,
        "insecure": not configuration.verify_ssl,
        "certificate_path": configuration.cert_file,
        "private_key_path": configuration.key_file,
        "scheme": "Bearer" if token else None,
        "token": token or None,
    }


async def _until_signal(settings: OperatorSettings) -> None:
    """kopf installs its own handlers when it starts; until then a signal just ends everything.
    Without a handler the first process of a container would not even get it."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel if task else sys.exit)
    await run(settings)


def main() -> None:
    logs.configure()
    try:
        settings = from_environment(os.environ, socket.gethostname())
    except InvalidSettings as error:
        sys.exit(str(error))
    try:
        asyncio.run(_until_signal(settings))
    except asyncio.CancelledError:
        logger.info("ended by a signal")


if __name__ == "__main__":
    main()
