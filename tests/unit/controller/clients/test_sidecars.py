"""Calls to sidecars, against a small one, and a stub of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from unit.controller import builders
from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.clients import sidecars
from warmpod.controller.clients.sidecars import Load, SidecarError, Sidecars, SidecarUnable
from warmpod.controller.objects.views import PodView

PATH = "/api/v1/namespaces/system/serviceaccounts/operator/token"


@dataclass
class Tokens:
    """The API server, as far as it makes tokens."""

    requests: list[Any] = field(default_factory=list)
    error: Exception | None = None
    hangs: bool = False

    async def request(self, method: str, path: str, *, body: Any) -> Any:
        assert (method, path) == ("POST", PATH)
        self.requests.append(body["spec"])
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return {"status": {"token": f"token-{len(self.requests)}"}}


@dataclass
class Sidecar:
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    status: int = 202
    text: str = "{}"
    hangs: bool = False

    async def handle(self, request: web.Request) -> web.Response:
        self.calls.append((request.method, request.path, request.headers["Authorization"]))
        if self.hangs:
            await asyncio.Event().wait()
        return web.Response(status=self.status, text=self.text)


@pytest.fixture
async def sidecar(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sidecar]:
    served = Sidecar()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", served.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setattr(sidecars, "WARMUP_PORT", runner.addresses[0][1])
    yield served
    await runner.cleanup()


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
async def calls(tokens: Any) -> AsyncIterator[Sidecars]:
    async with aiohttp.ClientSession() as session:
        yield Sidecars(tokens, session, "system", "operator")


def pod(model: str = "llama", ip: str = "127.0.0.1") -> PodView:
    view = builders.engine().view()
    labels = {**view.meta.labels, "warmpod.io/model": model}
    return replace(view, ip=ip, meta=replace(view.meta, labels=labels))


async def test_calls(calls: Sidecars, sidecar: Sidecar, tokens: Tokens) -> None:
    await calls.sleep(pod())
    await calls.wake(pod())
    await calls.warm(pod())
    assert sidecar.calls == [
        ("POST", "/v1/sleep", "Bearer token-1"),
        ("POST", "/v1/wake", "Bearer token-1"),
        ("POST", "/v1/warm", "Bearer token-1"),
    ]
    assert tokens.requests == [{"audiences": ["warmpod.io/models/llama"], "expirationSeconds": 600}]


async def test_each_model_has_a_token_of_its_own_until_it_is_old(
    calls: Sidecars, sidecar: Sidecar, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(*(calls.wake(pod("a")) for _ in range(5)), calls.wake(pod("b")))
    assert sorted(asked["audiences"][0] for asked in tokens.requests) == [
        "warmpod.io/models/a",
        "warmpod.io/models/b",
    ]
    monkeypatch.setattr(sidecars, "TOKEN_USE", 0.0)
    await calls.wake(pod("c"))
    await calls.wake(pod("c"))
    assert len(tokens.requests) == 4


async def test_load(calls: Sidecars, sidecar: Sidecar) -> None:
    sidecar.status, sidecar.text = 200, '{"running": 2, "waiting": 1}'
    assert await calls.load(pod()) == Load(2, 1)
    assert sidecar.calls[0][:2] == ("GET", "/v1/load")
    for status, text in ((200, "?"), (200, "[]"), (200, '{"running": null}'), (409, "{}")):
        sidecar.status, sidecar.text = status, text
        assert await calls.load(pod()) is None


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, SidecarError), (404, SidecarUnable), (409, SidecarError), (501, SidecarUnable)],
)
async def test_refusals(
    calls: Sidecars, sidecar: Sidecar, status: int, error: type[SidecarError]
) -> None:
    sidecar.status, sidecar.text = status, '{"error": "because"}'
    with pytest.raises(SidecarError, match=r"pod models/llama-0: wake: .*because") as refused:
        await calls.wake(pod())
    assert type(refused.value) is error


async def test_a_token_that_is_refused_is_not_used_again(
    calls: Sidecars, sidecar: Sidecar, tokens: Tokens
) -> None:
    sidecar.status = 401
    for _ in range(2):
        with pytest.raises(SidecarError):
            await calls.wake(pod())
    assert len(tokens.requests) == 2


async def test_an_answer_that_is_none(calls: Sidecars, sidecar: Sidecar) -> None:
    sidecar.text = "<html>"
    with pytest.raises(SidecarError, match="not a JSON object: <html>"):
        await calls.wake(pod())


async def test_nobody_there(calls: Sidecars, sidecar: Sidecar) -> None:
    with pytest.raises(SidecarError, match="it has no address yet"):
        await calls.wake(pod(ip=""))
    with pytest.raises(SidecarError, match="pod models/llama-0: wake: "):
        await calls.wake(pod(ip="::1"))  # the small one listens on IPv4 only
    assert await calls.load(pod(ip="::1")) is None


async def test_no_answer(
    calls: Sidecars, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecars, "CALL_TIMEOUT", aiohttp.ClientTimeout(total=0.1))
    sidecar.hangs = True
    with pytest.raises(SidecarError, match="wake: "):
        await calls.wake(pod())
    assert await calls.load(pod()) is None


@pytest.mark.parametrize(
    "error", [ApiError(403, "Forbidden", "no"), Unreachable("POST: refused"), KeyError("status")]
)
async def test_no_token(
    calls: Sidecars, sidecar: Sidecar, tokens: Tokens, error: Exception
) -> None:
    tokens.error = error
    with pytest.raises(SidecarError, match="no token for sidecars"):
        await calls.sleep(pod())
    assert await calls.load(pod()) is None
    assert not sidecar.calls


async def test_an_api_server_that_hangs(
    calls: Sidecars, sidecar: Sidecar, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecars, "TOKEN_TIMEOUT", 0.1)
    tokens.hangs = True
    with pytest.raises(SidecarError, match="no token for sidecars: TimeoutError"):
        await calls.sleep(pod())


async def test_outside_of_a_cluster(sidecar: Sidecar, tokens: Any) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(SidecarError, match="no service account"):
            await Sidecars(tokens, session, "system", "").sleep(pod())
