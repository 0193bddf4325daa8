"""Load of earlier days, asked of a server that speaks Prometheus' protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from unit.controller.builders import warm_model
from warmpod.api import WarmModel
from warmpod.controller.forecasting.history import History, HistoryError
from warmpod.controller.forecasting.series import SHAPES

MODEL = WarmModel.parse(warm_model())
SHAPE = SHAPES["Day"]
NOW = datetime(2030, 1, 15, tzinfo=UTC)


class Prometheus:
    def __init__(self) -> None:
        self.answer = web.Response(status=500)
        self.asked: dict[str, str] = {}
        self.history: History

    async def query(self, request: web.Request) -> web.Response:
        self.asked = dict(request.query)
        return self.answer


@pytest.fixture
async def prometheus() -> AsyncIterator[Prometheus]:
    found = Prometheus()
    app = web.Application()
    app.router.add_get("/api/v1/query_range", found.query)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        found.history = History(session, str(server.make_url("/")))
        yield found


async def test_values_are_read(prometheus: Prometheus) -> None:
    values = [[1893456000, "3"], [1893456300, "NaN"], [1893456600.5, "4.5"]]
    body = {"status": "success", "data": {"resultType": "matrix", "result": [{"values": values}]}}
    prometheus.answer = web.json_response(body)
    found = await prometheus.history.read(MODEL, SHAPE, NOW)
    assert [load for _, load in found] == [3, 4.5]
    assert found[0][0] == datetime(2030, 1, 1, tzinfo=UTC)
    assert (prometheus.asked["step"], prometheus.asked["start"]) == ("300", "1893456000")
    assert 'pod=~"llama-[a-z0-9]+-[a-z0-9]+"' in prometheus.asked["query"]


@pytest.mark.parametrize(
    "answer",
    [(500, ""), (200, "no JSON"), (200, "[]"), (200, '{"data": {"result": [{"values": [[1]]}]}}')],
)
async def test_other_answers_are_errors(prometheus: Prometheus, answer: tuple[int, str]) -> None:
    prometheus.answer = web.Response(status=answer[0], text=answer[1])
    with pytest.raises(HistoryError):
        await prometheus.history.read(MODEL, SHAPE, NOW)


async def test_without_an_address_nobody_is_asked() -> None:
    async with aiohttp.ClientSession() as session:
        assert await History(session, "").read(MODEL, SHAPE, NOW) == []
