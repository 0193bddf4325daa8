"""A plan that gets smaller while it is played."""

from collections.abc import Mapping
from typing import Any

import pytest

from warmpod.api.warmup import Warmup
from warmpod.sidecar import settling
from warmpod.sidecar.answers import Answer
from warmpod.sidecar.engine import EngineError, Reply
from warmpod.sidecar.planning import Plan
from warmpod.sidecar.planning.model import Ask, bucket_of
from warmpod.sidecar.record import Record
from warmpod.sidecar.settling import Settling

REPLY = Reply(0.1, 0.2, Answer(True, 5), 0.02)
NAMES = ("chat/base", "chat/long", "user/ours", "adapter/sql/chat")
PLAN = Plan(tuple(bucket_of(name, "chat", [[Ask({"bucket": name})]]) for name in NAMES))


@pytest.fixture(autouse=True)
def no_late_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "LATE_NEWS_SECONDS", 0.0)


def settle(fails: Mapping[str, EngineError], record: Record, round_seconds: int = 60) -> Settling:
    async def ask(_: object, body: Mapping[str, Any]) -> Reply:
        if body["bucket"] in fails:
            raise fails[body["bucket"]]
        return REPLY

    warmup = Warmup(tolerance_percent=25).model_copy(update={"round_seconds": round_seconds})
    return Settling(PLAN, ask, record, warmup)


async def settled(made: Settling) -> bool:
    judgement = None
    for _ in range(6):
        _, judgement = await made.play()
    return judgement is not None and judgement.settled


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("name", NAMES[1:])
async def test_what_the_engine_refuses_keeps_no_pod_out(name: str, status: int) -> None:
    record = Record()
    made = settle({name: EngineError(f"{status} no", status)}, record)
    assert await settled(made)
    assert made.plan.names == {*NAMES} - {name}
    assert record.left_out == {name}
    assert record.notes == [f"{name}: {status} no; it is left out"]


@pytest.mark.parametrize("status", [401, 429, 500, 503, None])
async def test_what_fails_otherwise_does(status: int | None) -> None:
    record = Record()
    made = settle({"user/ours": EngineError("no", status)}, record)
    assert not await settled(made)
    assert made.plan == PLAN
    assert not record.left_out


async def test_an_engine_that_refuses_everything_has_not_settled() -> None:
    refusal = EngineError("400 no", 400)
    made = settle(dict.fromkeys(NAMES, refusal), Record())
    assert not await settled(made)
    assert made.plan.names == {"chat/base"}


async def test_buckets_that_do_not_fit_into_a_round_are_known_as_left_out() -> None:
    record = Record()
    made = settle({}, record, round_seconds=0)
    assert await settled(made)
    assert made.plan.names == {"chat/base"}
    assert record.left_out == {*NAMES[1:]}
