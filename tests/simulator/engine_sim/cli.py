"""One life of a simulated engine: start, load, serve, and end the way vLLM does."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import Sequence

from aiohttp import web

from engine_sim import core, logs
from engine_sim.engine import Engine
from engine_sim.server import Server
from engine_sim.settings import VERSION, Arguments, Knobs, parse_arguments, read_knobs

# vLLM's watchdog looks at the engine process this often, so its exit comes late (seconds).
WATCHDOG_SECONDS = 5.0
USAGE = "usage: vllm serve MODEL [options] | vllm --version"


def main(argv: Sequence[str]) -> int:
    """Do what the `vllm` command would do; returns the exit code."""
    if list(argv[:1]) in (["--version"], ["-v"]):
        logs.plain(VERSION)
        return 0
    if list(argv[:1]) != ["serve"]:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    return serve(parse_arguments(argv[1:]), read_knobs(os.environ), argv)


def serve(arguments: Arguments, knobs: Knobs, argv: Sequence[str]) -> int:
    """Start the engine process and serve until told to stop, or until it dies."""
    logs.line(
        "APIServer",
        "api_utils.py:325",
        f"vLLM server version {VERSION}, serving model {arguments.model}",
    )
    logs.line("APIServer", "api_utils.py:260", f"non-default args: {{'argv': {list(argv)!r}}}")
    if knobs.fault.name == "crash-at-start":
        logs.plain("RuntimeError: simulated crash at start")
        return 1
    try:
        listener = bind(arguments)
    except OSError as failed:
        logs.plain(f"OSError: {failed}")
        return 1
    logs.line("APIServer", "model.py:620", "Resolved architecture: LlamaForCausalLM")
    logs.line("APIServer", "model.py:1845", f"Using max model len {arguments.max_model_len}")
    engine_core = core.start(arguments, knobs)
    return asyncio.run(Life(arguments, knobs, engine_core, listener).live())


def bind(arguments: Arguments) -> socket.socket:
    """Take the port, as vLLM does before it loads, without listening on it yet."""
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((arguments.host, arguments.port))
    return listener


class Life:
    """The main process between the start of the engine process and its own end."""

    def __init__(
        self,
        arguments: Arguments,
        knobs: Knobs,
        engine_core: core.EngineCore,
        listener: socket.socket,
    ) -> None:
        self._arguments = arguments
        self._core = engine_core
        self._listener = listener
        self._engine = Engine(arguments, knobs, engine_core.kill)
        self._server = Server(arguments, knobs, self._engine)
        self._loaded = asyncio.Event()
        self._core_died = asyncio.Event()
        self._stop = asyncio.Event()
        self._ignored_stop = False

    async def live(self) -> int:
        """Load, serve, end; returns the exit code."""
        self._watch()
        await first_of(self._loaded, self._core_died, self._stop)
        if self._core_died.is_set():
            logs.plain(
                "RuntimeError: Engine core initialization failed. See root cause above. "
                "Failed core proc(s): {'EngineCore': 1}"
            )
            return 1
        if not self._stop.is_set():
            await self._serve()
        if not self._core_died.is_set():
            os.kill(self._core.pid, signal.SIGTERM)
            await self._core_died.wait()
        return 0

    async def _serve(self) -> None:
        arguments = self._arguments
        runner = web.AppRunner(
            self._server.application(),
            access_log=None,
            handler_cancellation=True,  # vLLM aborts a request whose client went away
            shutdown_timeout=0.1,
        )
        await runner.setup()
        await web.SockSite(runner, self._listener, ssl_context=tls(arguments)).start()
        scheme = "https" if arguments.ssl_certfile else "http"
        logs.line(
            "APIServer",
            "entry.py:110",
            f"Starting vLLM server on {scheme}://{arguments.host}:{arguments.port}",
        )
        logs.plain(f"INFO:     Started server process [{os.getpid()}]")
        logs.plain("INFO:     Waiting for application startup.")
        logs.plain("INFO:     Application startup complete.")
        await first_of(self._core_died, self._stop)
        if not self._stop.is_set():
            logs.line(
                "APIServer",
                "core_client.py:760",
                "Engine core proc EngineCore died unexpectedly, shutting down client.",
                "ERROR",
            )
            await wait_at_most(self._stop, WATCHDOG_SECONDS)
        logs.plain("INFO:     Shutting down")
        await runner.cleanup()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop_signal)
        loop.add_reader(self._core.ready_fd, self._on_ready)
        pidfd = os.pidfd_open(self._core.pid)
        loop.add_reader(pidfd, self._on_core_death, pidfd)

    def _on_stop_signal(self) -> None:
        # vLLM 0.32 ignores the first signal while the engine starts; a second one ends it.
        if self._loaded.is_set() or self._ignored_stop:
            self._stop.set()
        self._ignored_stop = True

    def _on_ready(self) -> None:
        if os.read(self._core.ready_fd, 1):
            self._loaded.set()
        asyncio.get_running_loop().remove_reader(self._core.ready_fd)

    def _on_core_death(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        os.waitpid(self._core.pid, 0)
        self._core_died.set()
        self._engine.mark_dead()


def tls(arguments: Arguments) -> ssl.SSLContext | None:
    """The server's TLS context, when a certificate is given."""
    if arguments.ssl_certfile is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(arguments.ssl_certfile, arguments.ssl_keyfile)
    return context


async def first_of(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waiters = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    for waiter in waiters:
        waiter.cancel()


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not longer than `seconds`."""
    await asyncio.wait([asyncio.ensure_future(event.wait())], timeout=seconds)
