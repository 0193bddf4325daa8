"""One life of a simulated server: wait for the engine, serve, and end the way vLLM does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl

from aiohttp import web

from engine_sim import logs
from engine_sim.arguments import Arguments
from engine_sim.core import EngineCore
from engine_sim.engine import Engine
from engine_sim.errors import RequestError
from engine_sim.server import Server
from engine_sim.setup import Setup

# vLLM's watchdog looks at the engine process this often, so its exit comes late (seconds).
WATCHDOG_SECONDS = 5.0


def live(setup: Setup, engine_core: EngineCore, listener: socket.socket) -> int:
    """Serve until told to stop, or until the engine dies; returns the exit code."""
    return asyncio.run(Life(setup, engine_core, listener).live())


class Life:
    """The main process between the start of the engine process and its own end."""

    def __init__(self, setup: Setup, engine_core: EngineCore, listener: socket.socket) -> None:
        self._setup = setup
        self._core = engine_core
        self._listener = listener
        self._engine = Engine(setup, engine_core.kill)
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
        code = 0
        if not self._stop.is_set():
            code = await self._serve()
        if not self._core_died.is_set():
            os.kill(self._core.pid, signal.SIGTERM)
            await self._core_died.wait()
        return code

    async def _serve(self) -> int:
        try:
            server = Server(self._setup, self._engine)
        except RequestError as refused:  # an adapter that is not there
            logs.plain(f"ValueError: {refused}")
            return 1
        await asyncio.sleep(self._setup.knobs.http_seconds)
        runner = web.AppRunner(
            server.application(),
            access_log=None,
            handler_cancellation=True,  # vLLM aborts a request whose client went away
            shutdown_timeout=0.1,
        )
        await runner.setup()
        self._announce(runner)
        await web.SockSite(runner, self._listener, ssl_context=tls(self._setup.arguments)).start()
        logs.plain(f"INFO:     Started server process [{os.getpid()}]")
        logs.plain("INFO:     Waiting for application startup.")
        logs.plain("INFO:     Application startup complete.")
        await first_of(self._core_died, self._stop)
        await self._end()
        logs.plain("INFO:     Shutting down")
        await runner.cleanup()
        return 0

    def _announce(self, runner: web.AppRunner) -> None:
        arguments = self._setup.arguments
        scheme = "https" if arguments.ssl_certfile else "http"
        address = f"{scheme}://{arguments.host}:{arguments.port}"
        self._say("entry.py:66", f"Supported tasks: {self._setup.model.tasks}")
        self._say("entry.py:110", f"Starting vLLM server on {address}")
        self._say("launcher.py:176", "Available routes are:")
        for route in runner.app.router.routes():
            if route.method != "HEAD":
                path = route.resource.canonical if route.resource else ""
                self._say("launcher.py:185", f"Route: {path}, Methods: {route.method}")

    async def _end(self) -> None:
        """Wait as long as vLLM does before it goes."""
        if self._stop.is_set():
            await self._drain()
            return
        self._say(
            "core_client.py:760",
            "Engine core proc EngineCore died unexpectedly, shutting down client.",
            "ERROR",
        )
        keep = self._setup.switches.keep_alive_on_death
        await wait_at_most(self._stop, None if keep else WATCHDOG_SECONDS)

    async def _drain(self) -> None:
        """Let the requests in flight end, for as long as --shutdown-timeout allows."""
        seconds = self._setup.arguments.shutdown_timeout
        mode = "drain" if seconds else "abort"
        self._say("launcher.py:253", "[shutdown] API server: shutdown triggered")
        self._say(
            "launcher.py:267",
            f"[shutdown] API server: stopping engine client mode={mode} timeout={seconds:g}s",
        )
        self._engine.drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._engine.until_idle(), seconds)

    def _say(self, where: str, message: str, level: str = "INFO") -> None:
        logs.line("APIServer", where, message, level)

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


async def wait_at_most(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for the event, but not longer than `seconds`."""
    await asyncio.wait([asyncio.ensure_future(event.wait())], timeout=seconds)
