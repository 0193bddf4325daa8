from collections.abc import Mapping
from typing import Any

import pytest

from warmpod.sidecar.answers import Answer
from warmpod.sidecar.engine import EngineError, Reply
from warmpod.sidecar.learn import Learned, learn
from warmpod.sidecar.plan import TokenCost

NO_TEMPLATE = EngineError("400 no chat template", 400, "you must provide a chat template")
NO_ROUTE = EngineError("404", 404, '{"detail":"Not Found"}')


def reply(prompt_tokens: int | None) -> Reply:
    return Reply(0.5, 0.6, Answer(True, prompt_tokens))


class ScriptedEngine:
    def __init__(
        self, replies: Mapping[str, Reply | EngineError], models: list[dict[str, Any]]
    ) -> None:
        self._replies = replies
        self._models = models

    async def models(self) -> list[dict[str, Any]]:
        return self._models

    async def generate(self, endpoint: str, *_: object) -> Reply:
        outcome = self._replies[endpoint]
        if isinstance(outcome, EngineError):
            raise outcome
        return outcome


async def learned(
    replies: Mapping[str, Reply | EngineError],
    models: list[dict[str, Any]] | None = None,
) -> Learned:
    if models is None:
        models = [{"id": "tiny", "max_model_len": 2048}]
    engine: Any = ScriptedEngine(replies, models)
    return await learn(engine, "tiny", 600, lambda: None)


async def test_cost_of_words_and_of_the_chat_template() -> None:
    found = await learned({"completion": reply(16), "chat": reply(26)})
    assert found.served.costs == {"completion": TokenCost(2.0, 0.0), "chat": TokenCost(2.0, 10.0)}
    assert found.served.max_model_len == 2048
    assert found.first_token == 0.5


async def test_engine_that_does_not_count_tokens() -> None:
    found = await learned({"completion": reply(None), "chat": reply(None)})
    assert found.served.costs["completion"] == TokenCost(1.0, 0.0)


async def test_model_without_chat_template() -> None:
    found = await learned({"completion": reply(8), "chat": NO_TEMPLATE})
    assert set(found.served.costs) == {"completion"}
    assert found.served.notes == ("chat is not served: 400 no chat template",)


async def test_engine_that_generates_nothing_says_so() -> None:
    with pytest.raises(EngineError, match=r"completion is not served.*chat is not served"):
        await learned({"completion": NO_ROUTE, "chat": NO_ROUTE})


async def test_failure_is_not_taken_for_a_missing_endpoint() -> None:
    with pytest.raises(EngineError, match="500"):
        await learned({"completion": reply(8), "chat": EngineError("500 oops", 500, "oops")})


async def test_other_served_name() -> None:
    found = await learned(
        {"completion": reply(8), "chat": reply(8)}, [{"id": "other"}, {"id": "lora"}]
    )
    assert found.served.model == "other"
    assert found.served.max_model_len is None
    assert "serves 'other', not 'tiny'" in found.served.notes[0]


async def test_no_models() -> None:
    with pytest.raises(EngineError, match="empty"):
        await learned({}, [])
