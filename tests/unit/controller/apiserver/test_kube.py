"""Requests as they go over the wire, and what answers become."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from warmpod.controller.apiserver.kinds import DEPLOYMENT, NAMESPACE, POD, WARM_MODEL
from warmpod.controller.apiserver.kube import ApiError, Kube, Unreachable


@dataclass
class Api:
    requests: list[dict[str, Any]] = field(default_factory=list)
    answers: list[web.Response] = field(default_factory=list)
    kube: Kube = field(init=False)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(
            {
                "method": request.method,
                "path": request.path,
                "query": dict(request.query),
                "type": request.headers.get("Content-Type", ""),
                "agent": request.headers.get("User-Agent", ""),
                "authorization": request.headers.get("Authorization", ""),
                "body": json.loads(body) if body else None,
                "raw": body.decode(),
            }
        )
        return self.answers.pop(0) if self.answers else web.json_response({"metadata": {}})


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    found = Api()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", found.handle)
    async with TestServer(app) as server:
        configuration = Configuration(host=str(server.make_url("")).rstrip("/"))
        configuration.api_key["BearerToken"] = "Bearer secret"
        found.kube = Kube(configuration)
        yield found
        await found.kube.close()


def error(status: int, reason: str, *, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "reason": reason, "message": f"it is {reason}"}
    return web.json_response(body, status=status, headers=headers)


@pytest.mark.parametrize("text", ["😀", "\x7f\x85\u2028\ufeff", "ä\u202e", "\\ud83d", '"\n\t\x01'])
async def test_any_text_reaches_the_server_as_yaml(api: Api, text: str) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "n", "name": "a"}}
    await api.kube.apply(body | {"data": text})
    raw = api.requests[0]["raw"]
    assert yaml.safe_load(raw)["data"] == text
    assert json.loads(raw)["data"] == text


async def test_apply(api: Api) -> None:
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"replicas": 0},
    }
    await api.kube.apply(body)
    (request,) = api.requests
    assert request["method"] == "PATCH"
    assert request["path"] == "/apis/apps/v1/namespaces/n/deployments/a"
    assert request["query"] == {"fieldManager": "warmpod", "force": "true"}
    assert request["type"] == "application/apply-patch+yaml; charset=utf-8"
    assert request["body"] == body
    assert request["agent"] == "warmpod-operator"
    assert request["authorization"] == "Bearer secret"


async def test_apply_of_a_status(api: Api) -> None:
    body = {
        "apiVersion": "warmpod.io/v1alpha1",
        "kind": "WarmModel",
        "metadata": {"name": "a", "namespace": "n"},
    }
    await api.kube.apply(body, subresource="status")
    path = "/apis/warmpod.io/v1alpha1/namespaces/n/warmmodels/a/status"
    assert api.requests[0]["path"] == path


async def test_core_and_cluster_scoped_paths(api: Api) -> None:
    await api.kube.get(POD, "n", "a")
    await api.kube.get(NAMESPACE, None, "n")
    assert [r["path"] for r in api.requests] == [
        "/api/v1/namespaces/n/pods/a",
        "/api/v1/namespaces/n",
    ]


async def test_get_of_nothing(api: Api) -> None:
    api.answers.append(error(404, "NotFound"))
    assert await api.kube.get(DEPLOYMENT, "n", "a") is None


async def test_lists_come_in_pages(api: Api) -> None:
    api.answers += [
        web.json_response(
            {"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [{"n": 1}]}
        ),
        web.json_response({"metadata": {"resourceVersion": "7"}, "items": [{"n": 2}]}),
    ]
    pages = [page async for page in api.kube.list_pages(WARM_MODEL, None, labels="a=b")]
    assert pages == [([{"n": 1}], 7), ([{"n": 2}], 7)]
    assert api.requests[0]["query"] == {"limit": "500", "labelSelector": "a=b"}
    assert api.requests[1]["query"]["continue"] == "next"


async def test_errors_carry_what_the_server_said(api: Api) -> None:
    api.answers.append(error(429, "TooManyRequests", headers={"Retry-After": "3"}))
    with pytest.raises(ApiError) as raised:
        await api.kube.get(POD, "n", "a")
    found = raised.value
    assert (found.status, found.reason, found.retry_after) == (429, "TooManyRequests", 3.0)
    assert found.message == "it is TooManyRequests"


async def test_an_error_from_something_in_between(api: Api) -> None:
    api.answers.append(web.Response(status=502, text="<html>bad gateway</html>"))
    with pytest.raises(ApiError) as raised:
        await api.kube.get(POD, "n", "a")
    assert raised.value.status == 502
    assert "bad gateway" in raised.value.message


async def test_a_terminating_namespace_has_its_own_reason(api: Api) -> None:
    body = {
        "kind": "Status",
        "reason": "Forbidden",
        "message": "because it is being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating"}]},
    }
    api.answers.append(web.json_response(body, status=403))
    with pytest.raises(ApiError) as raised:
        await api.kube.get(POD, "n", "a")
    assert raised.value.reason == "NamespaceTerminating"


@pytest.mark.parametrize("status", [404, 409])
async def test_deleting_what_is_gone_or_replaced_is_done(api: Api, status: int) -> None:
    api.answers.append(error(status, "Whatever"))
    await api.kube.delete(POD, "n", "a", uid="u")
    assert api.requests[0]["body"]["preconditions"] == {"uid": "u"}


async def test_no_answer() -> None:
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    kube = Kube(Configuration(host=f"http://127.0.0.1:{port}"))
    with pytest.raises(Unreachable, match="GET /api/v1/namespaces/n/pods/a"):
        await kube.get(POD, "n", "a")
    server.close()
    await server.wait_closed()
    with pytest.raises(Unreachable):
        await kube.get(POD, "n", "a")
    await kube.close()
