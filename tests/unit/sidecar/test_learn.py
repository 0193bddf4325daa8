"""What a boot serves, found out against a scripted engine."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from warmpod.api.warmup import Prefix, Warmup
from warmpod.engine import EngineTraits
from warmpod.sidecar.answers import Answer
from warmpod.sidecar.engine import PATHS, EngineError, Reply
from warmpod.sidecar.learn import Learned, learn, unsupported
from warmpod.sidecar.planning import TokenCost, make_plan

NO_TEMPLATE = EngineError("400 no chat template", 400, "you must provide a chat template")
NO_ROUTE = EngineError("404", 404, '{"detail":"Not Found"}')
TOO_LONG = EngineError("400 too long", 400, "This model's maximum context length is 16 tokens")
REFUSED = EngineError("400 no", 400, "no")
BROKEN = EngineError("500 oops", 500, "oops")

MODELS = [{"id": "tiny", "max_model_len": 2048}]


def reply(prompt_tokens: int | None) -> Reply:
    return Reply(0.5, 0.6, Answer(True, prompt_tokens))


class ScriptedEngine:
    """Has the endpoints of which it has a reply. A request with a field of `refuses` in it gets
    the error that stands there."""

    def __init__(
        self,
        replies: Mapping[str, Reply | EngineError],
        models: list[dict[str, Any]] | None = None,
        refuses: Mapping[str, EngineError] | None = None,
        routes: Iterable[str] | None = None,
        token_ids: tuple[int, ...] = (),
    ) -> None:
        self._replies = replies
        self._models = MODELS if models is None else models
        self._refuses = refuses or {}
        self._routes = None if routes is None else frozenset(routes)
        self._token_ids = token_ids
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.tokenized: list[str] = []

    async def models(self) -> list[dict[str, Any]]:
        return self._models

    async def routes(self) -> frozenset[str] | None:
        return self._routes

    async def token_ids(self, _: str, text: str) -> tuple[int, ...]:
        self.tokenized = text.split()
        return self._token_ids

    async def generate(self, endpoint: str, body: Mapping[str, Any], *_: object) -> Reply:
        self.asked.append((endpoint, body))
        outcome = self._replies.get(endpoint, NO_ROUTE)
        for text, error in self._refuses.items():
            if text in str(body):
                outcome = error
        if isinstance(outcome, EngineError):
            raise outcome
        return outcome


async def learned(engine: ScriptedEngine, warmup: Warmup | None = None, **traits: Any) -> Learned:
    scripted: Any = engine
    return await learn(
        scripted, "tiny", 600, lambda: None, EngineTraits(**traits), warmup or Warmup()
    )


GENERATING = {"completion": reply(8), "chat": reply(18)}


async def test_cost_of_words_and_of_the_chat_template() -> None:
    found = await learned(ScriptedEngine({"completion": reply(16), "chat": reply(26)}))
    assert found.served.costs == {"completion": TokenCost(2.0, 0.0), "chat": TokenCost(2.0, 10.0)}
    assert found.served.max_model_len == 2048
    assert found.first_token == 0.5


async def test_engine_that_does_not_count_tokens() -> None:
    found = await learned(ScriptedEngine({"completion": reply(None), "chat": reply(None)}))
    assert found.served.costs["completion"] == TokenCost(1.0, 0.0)


async def test_model_without_chat_template() -> None:
    found = await learned(ScriptedEngine({"completion": reply(8), "chat": NO_TEMPLATE}))
    assert set(found.served.costs) == {"completion"}
    assert found.served.notes == ("chat is not served: 400 no chat template",)
    assert "structured/regex" in found.served.features


async def test_a_template_that_is_longer_than_the_context() -> None:
    engine = ScriptedEngine(
        {"completion": reply(1), "chat": TOO_LONG}, [{"id": "tiny", "max_model_len": 16}]
    )
    assert set((await learned(engine)).served.costs) == {"completion"}


async def test_engine_that_generates_nothing_says_so() -> None:
    with pytest.raises(EngineError, match=r"completion is not served.*chat is not served"):
        await learned(ScriptedEngine({}))


async def test_failure_is_not_taken_for_a_missing_endpoint() -> None:
    with pytest.raises(EngineError, match="500"):
        await learned(ScriptedEngine({"completion": reply(8), "chat": BROKEN}))


async def test_embedding_engine_is_learned_by_its_routes() -> None:
    routes = [PATHS["embeddings"], PATHS["pooling"], PATHS["score"], "/health"]
    engine = ScriptedEngine(
        {"embeddings": reply(10), "pooling": reply(10), "score": reply(19)}, routes=routes
    )
    found = (await learned(engine)).served
    assert found.costs == {
        "embeddings": TokenCost(1.1875, 0.5),
        "pooling": TokenCost(1.1875, 0.5),
        "score": TokenCost(1.1875, 0.0),
    }
    assert {endpoint for endpoint, _ in engine.asked} == {"embeddings", "pooling", "score"}
    assert found.notes == ()


async def test_routes_that_answer_with_not_supported_are_left_out_with_a_note() -> None:
    refusal = EngineError("400", 400, "The model does not support Pooling API")
    routes = [PATHS["embeddings"], PATHS["pooling"]]
    engine = ScriptedEngine({"embeddings": reply(8), "pooling": refusal}, routes=routes)
    assert (await learned(engine)).served.notes == ("pooling is not served: 400",)


async def test_without_a_list_of_routes_each_endpoint_is_tried() -> None:
    engine = ScriptedEngine({"rerank": reply(16), "transcription": reply(None)})
    assert set((await learned(engine)).served.costs) == {"rerank", "transcription"}


async def test_an_engine_without_a_route_for_chat() -> None:
    engine = ScriptedEngine(GENERATING, routes=[PATHS["completion"]])
    found = (await learned(engine)).served
    assert set(found.costs) == {"completion"}
    assert found.notes == ("chat is not served: the engine has no route /v1/chat/completions",)


async def test_what_is_skipped_is_not_asked_for() -> None:
    engine = ScriptedEngine({**GENERATING, "transcription": BROKEN})
    warmup = Warmup(skip=("transcription/*", "image/*", "sampler/*"))
    found = (await learned(engine, warmup)).served
    assert set(found.costs) == {"chat", "completion"}
    assert not [name for name in found.features if name.startswith(("image/", "sampler/"))]
    assert "image_url" not in str(engine.asked)


@pytest.mark.parametrize(
    ("field", "feature"),
    [
        ("json_object", "structured/json-object"),
        ("'regex'", "structured/regex"),
        ("logit_bias", "sampler/logit-bias"),
        ("prompt_logprobs", "sampler/prompt-logprobs"),
        ("'n': 2", "sampler/n"),
        ("image_url", "image/small"),
    ],
)
async def test_a_refused_feature_is_left_out_with_the_reason(field: str, feature: str) -> None:
    found = (await learned(ScriptedEngine(GENERATING, refuses={field: REFUSED}))).served
    assert feature not in found.features
    assert found.notes == (f"{feature} is left out: 400 no",)
    plan = make_plan(found, Warmup())
    assert feature not in [bucket.name for bucket in plan.buckets]
    assert found.notes[0] in plan.notes


async def test_a_feature_on_which_the_engine_always_breaks_is_left_out() -> None:
    engine = ScriptedEngine(GENERATING, refuses={"logit_bias": BROKEN})
    found = (await learned(engine)).served
    assert found.notes == ("sampler/logit-bias is left out: 500 oops",)
    assert sum("logit_bias" in body for _, body in engine.asked) == 3


@pytest.mark.parametrize("status", [401, 429, 503, None])
async def test_a_feature_that_fails_is_a_failure(status: int | None) -> None:
    error = EngineError("bad", status, "bad")
    with pytest.raises(EngineError, match="bad"):
        await learned(ScriptedEngine(GENERATING, refuses={"logit_bias": error}))


async def test_tools_are_tried_only_where_the_arguments_show_a_parser() -> None:
    assert "tools/auto" not in (await learned(ScriptedEngine(GENERATING))).served.features
    shown = await learned(ScriptedEngine(GENERATING), tool_parser="x", auto_tool_choice=True)
    assert "tools/auto" in shown.served.features


async def test_a_template_without_system_prompt() -> None:
    warmup = Warmup(prefixes=(Prefix(name="a", text="b"),))
    plain = (await learned(ScriptedEngine(GENERATING), warmup)).served
    assert "system-prompt" in plain.features
    engine = ScriptedEngine(GENERATING, refuses={"system": REFUSED})
    found = (await learned(engine, warmup)).served
    assert "system-prompt" not in found.features


async def test_an_engine_that_gives_one_token() -> None:
    refuses = {f"'max_tokens': {n}": REFUSED for n in range(2, 65)}
    found = (await learned(ScriptedEngine(GENERATING, refuses=refuses))).served
    assert found.answer_tokens == 1
    assert found.notes == ("answers are cut to one token: the engine refuses 4: 400 no",)
    assert "sampler/seed" in found.features


async def test_token_ids_come_from_the_engine() -> None:
    engine = ScriptedEngine(GENERATING, token_ids=(4, 5))
    assert (await learned(engine)).served.token_ids == (4, 5)
    assert len(engine.tokenized) > 50
    short = ScriptedEngine(GENERATING, [{"id": "tiny", "max_model_len": 16}], token_ids=(4,))
    assert (await learned(short)).served.token_ids == (4,)
    assert len(short.tokenized) == 1


async def test_other_served_name() -> None:
    found = await learned(ScriptedEngine(GENERATING, [{"id": "other"}, {"id": "lora"}]))
    assert found.served.model == "other"
    assert found.served.max_model_len is None
    assert "serves 'other', not 'tiny'" in found.served.notes[0]


async def test_a_context_that_the_list_of_models_lacks_is_that_of_the_arguments() -> None:
    engine = ScriptedEngine(GENERATING, [{"id": "tiny"}])
    assert (await learned(engine, max_model_len=512)).served.max_model_len == 512


ROOT = {"root": "/models/tiny", "max_model_len": 2048}


@pytest.mark.parametrize(
    ("models", "adapters"),
    [
        ([{"id": "tiny", **ROOT}, {"id": "second-name", **ROOT}], ()),
        ([{"id": "tiny", **ROOT}, {"id": "sql", "root": "/loras/sql", "parent": "tiny"}], ("sql",)),
        ([{"id": "sql", "root": "/loras/sql"}, {"id": "tiny", **ROOT}], ("sql",)),
        ([{"id": "tiny", **ROOT}, {"id": "x", "root": None, "parent": None}], ()),
    ],
)
async def test_adapters_are_told_from_other_names(
    models: list[dict[str, Any]], adapters: tuple[str, ...]
) -> None:
    found = (await learned(ScriptedEngine(GENERATING, models))).served
    assert found.model == "tiny"
    assert found.adapters == adapters


async def test_no_models() -> None:
    with pytest.raises(EngineError, match="empty"):
        await learned(ScriptedEngine({}, []))


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, "As of transformers v4.44, default chat template is no longer allowed", True),
        (400, "The model does not support Chat Completions API", True),
        (400, "This model's maximum context length is 16 tokens", True),
        (404, '{"detail":"Not Found"}', True),
        (405, "", True),
        (404, "The model `tiny` does not exist.", False),
        (400, "bad request", False),
        (401, "Unauthorized", False),
        (500, "no chat template today", False),
    ],
)
def test_unsupported(status: int, body: str, expected: bool) -> None:
    assert unsupported(status, body) is expected
