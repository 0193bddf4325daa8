"""Who may ask for a warm-up by HTTP, and what is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.triggers import identity
from warmpod.controller.triggers.http import Endpoint
from warmpod.controller.triggers.reviews import Reviews

URL = "/v1/namespaces/models/warmmodels/llama/warm"
Object = dict[str, Any]


class Kube:
    """Reviews as an API server would."""

    def __init__(self) -> None:
        self.sent: list[Object] = []
        self.audiences = ["warmpod.io"]
        self.allowed = True
        self.error: Exception | None = None

    async def request(self, method: str, path: str, *, body: Object) -> Object:
        assert method == "POST"
        self.sent.append(body)
        if self.error is not None:
            raise self.error
        if body["kind"] == "TokenReview":
            assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
            good = body["spec"]["token"] == "good"
            user = {"username": "ci", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}}
            status = {"authenticated": good, "audiences": self.audiences, "user": user}
            return {"status": status if good else {"authenticated": False}}
        assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return {"status": {"allowed": self.allowed}}


class Service:
    def __init__(self) -> None:
        self.kube = Kube()
        self.ready = True
        self.posted: list[tuple[tuple[str, str], str]] = []
        kube: Any = self.kube
        self.app = web.Application()
        Endpoint(
            Reviews(kube),
            lambda: self.ready,
            lambda key: key == ("models", "llama"),
            lambda key, request: self.posted.append((key, request)),
        ).add_to(self.app)

    async def post(self, url: str = URL, token: str | None = "good", **more: Any) -> int:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.client.post(url, headers=headers, **more) as answer:
            self.answer = await answer.json()
            return answer.status


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    found = Service()
    async with TestClient(TestServer(found.app)) as found.client:
        yield found


async def test_who_may_update_the_model_may_ask(service: Service) -> None:
    assert await service.post(json={"id": "commit-1"}) == 202
    assert service.posted == [(("models", "llama"), "commit-1")]
    token, access = service.kube.sent
    assert token["spec"] == {"token": "good", "audiences": ["warmpod.io"]}
    assert access["spec"]["resourceAttributes"] == {
        "namespace": "models",
        "name": "llama",
        "verb": "update",
        "group": "warmpod.io",
        "resource": "warmmodels",
    }
    assert (access["spec"]["user"], access["spec"]["groups"]) == ("ci", ["g"])


async def test_without_an_id_each_is_a_request_of_its_own(service: Service) -> None:
    assert await service.post() == 202
    assert await service.post() == 202
    (_, first), (_, second) = service.posted
    assert first != second


@pytest.mark.parametrize(
    ("change", "token", "status"),
    [
        (lambda s: None, None, 401),
        (lambda s: None, "", 401),
        (lambda s: None, "bad", 401),
        # Good for the API server itself, or for something else: not for us.
        (lambda s: setattr(s.kube, "audiences", ["https://kubernetes.default.svc"]), "good", 401),
        (lambda s: setattr(s.kube, "audiences", None), "good", 401),
        (lambda s: setattr(s.kube, "allowed", False), "good", 403),
        (lambda s: setattr(s, "ready", False), "good", 503),
        (lambda s: setattr(s.kube, "error", Unreachable("gone")), "good", 503),
        (lambda s: setattr(s.kube, "error", ApiError(500, "Error", "broken")), "good", 503),
        (lambda s: setattr(s.kube, "error", ApiError(403, "Forbidden", "no")), "good", 501),
    ],
)
async def test_who_may_not_is_told_why(
    service: Service, change: Any, token: str | None, status: int
) -> None:
    change(service)
    assert await service.post(token=token) == status
    assert service.answer["error"]
    assert service.posted == []


async def test_what_does_not_exist_is_told_to_those_only_who_may_know(service: Service) -> None:
    other = URL.replace("llama", "other")
    assert await service.post(other) == 404
    service.kube.allowed = False
    assert await service.post(other) == 403


async def test_what_is_answered_is_what_the_status_will_have(service: Service) -> None:
    assert await service.post(json={"id": "x" * 300}) == 202
    assert service.answer == {"id": identity("x" * 300)}


@pytest.mark.parametrize(
    "body",
    [
        *(b"text", b"[]", b'{"id": 1}', b"{}", b'{"id": ""}', b"x" * 5000, b"[" * 500_000),
        # Half a character: the API server would store another text than the one that was asked for.
        *(b'{"id": "\\ud800"}', b'{"id": "' + b"\\ud800" * 200 + b'"}'),
    ],
)
async def test_bodies_that_cannot_be_read(service: Service, body: bytes) -> None:
    assert await service.post(data=body) == 400
    assert service.posted == []
