"""Entry point of the `warmup` container."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from warmpod.podstatus import ConditionReporter, OwnPod, PodStatusError
from warmpod.protocol import TIMELINE_CONDITION, WARM_CONDITION, control_audience
from warmpod.sidecar.config import ConfigError, SidecarConfig, read_config
from warmpod.sidecar.engine import WARMUP_PRIORITY, Engine
from warmpod.sidecar.metrics import Metrics
from warmpod.sidecar.peers import Peers
from warmpod.sidecar.server import Server
from warmpod.sidecar.supervisor import Supervisor
from warmpod.sidecar.tokens import TokenVerifier


def main() -> None:
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    try:
        config = read_config(os.environ)
        pod = OwnPod.from_environment()
    except (ConfigError, PodStatusError) as error:
        sys.exit(f"warmpod-sidecar: {error}")
    asyncio.run(serve(config, pod))


async def serve(config: SidecarConfig, pod: OwnPod) -> None:
    """Run until SIGTERM or SIGINT; an unexpected error ends the process, and the kubelet starts
    the next one."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run_until(stop, config, pod)


async def run_until(stop: asyncio.Event, config: SidecarConfig, pod: OwnPod) -> None:
    priority = WARMUP_PRIORITY if config.engine.priority_scheduling else None
    metrics = Metrics(config.model)
    engine = Engine(config.base_url, config.api_key, config.tls_verify, priority, metrics.request)
    warm = ConditionReporter(pod, WARM_CONDITION)
    startup = ConditionReporter(pod, TIMELINE_CONDITION)
    supervisor = Supervisor(config, engine, warm, startup, Peers(pod, config.model), metrics)
    verifier = verifier_of(config, pod)
    server = Server(supervisor, config.port, verifier)
    await server.start()
    reporting = [asyncio.create_task(warm.run()), asyncio.create_task(startup.run())]
    supervising: asyncio.Task[Any] = asyncio.create_task(supervisor.run())
    stopping: asyncio.Task[Any] = asyncio.create_task(stop.wait())
    forsaken: asyncio.Task[Any] = asyncio.create_task(_forsaken(pod, supervisor))
    trusting = asyncio.create_task(verifier.load()) if verifier else None
    try:
        done, _ = await asyncio.wait(
            [supervising, stopping, forsaken, *reporting], return_when=asyncio.FIRST_COMPLETED
        )
        await _end([supervising, stopping, forsaken])
        await supervisor.close()
        for task in done:
            task.result()  # raises what ended it
    finally:
        trust = [trusting] if trusting else []
        await _end([supervising, stopping, forsaken, *reporting, *trust])
        await server.stop()
        await engine.close()
        await pod.close()


async def _forsaken(pod: OwnPod, supervisor: Supervisor) -> None:
    """Return when the pod is being deleted and has no engine: it will get none. While it has one,
    the sidecar outlives it, and then SIGTERM comes."""
    await pod.leaving.wait()
    if supervisor.orders is not None:
        await asyncio.Event().wait()


def verifier_of(config: SidecarConfig, pod: OwnPod) -> TokenVerifier | None:
    """None when the configuration names nobody who may give orders."""
    if not config.caller:
        return None
    audience = control_audience(pod.identity.namespace, config.model)
    return TokenVerifier(pod.read, audience, config.caller)


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    main()
