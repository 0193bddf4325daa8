from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from unit.sidecar.answering import Server
from warmpod.sidecar.engine import Engine


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    served = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", served.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield served
    await runner.cleanup()


@pytest.fixture
async def engine(server: Server) -> AsyncIterator[Engine]:
    made = Engine(server.url, "secret", tls_verify=False)
    yield made
    await made.close()
