"""Processes that start within milliseconds, so that what is killed is their work and not an import.

What they need is imported once, by the process that all of them are forked from.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess

_CONTEXT = multiprocessing.get_context("forkserver")
# Found by PYTHONPATH, which `make` sets; without it processes only take longer to start.
_CONTEXT.set_forkserver_preload(
    [
        "support.pod_api",
        "warmpod.agent.service",
        "warmpod.agent.staging.stager",
        "warmpod.agent.staging.hub",
        "warmpod.agent.staging.s3",
        "warmpod.agent.staging.web",
    ]
)


def fork(target: Callable[..., None], *arguments: object) -> ForkServerProcess:
    process: ForkServerProcess = _CONTEXT.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def end(process: ForkServerProcess, number: signal.Signals) -> None:
    """Send a signal and wait for the end."""
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, number)
    process.join(30)
    assert not process.is_alive()
