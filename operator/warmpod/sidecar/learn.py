"""Finds out what a boot serves, by its list of models and one small request an endpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warmpod.sidecar.engine import Engine, EngineError, Reply
from warmpod.sidecar.plan import Endpoint, Served, TokenCost, unsupported
from warmpod.sidecar.prompts import plain_body

PROBE_WORDS = 8

# Completion first: without a chat template around it, its cost is that of the words alone.
PROBE_ORDER: tuple[Endpoint, ...] = ("completion", "chat")


@dataclass(frozen=True, slots=True)
class Learned:
    """`first_token` is that of the very first request, in seconds."""

    served: Served
    first_token: float


async def learn(
    engine: Engine, served_name: str, timeout_seconds: float, on_token: Callable[[], None]
) -> Learned:
    """Raises EngineError when nothing can be learned."""
    model, max_model_len, notes = _choose(await engine.models(), served_name)
    words = PROBE_WORDS if max_model_len is None else max(1, min(PROBE_WORDS, max_model_len // 4))
    replies: dict[Endpoint, Reply] = {}
    for endpoint in PROBE_ORDER:
        body = plain_body(endpoint, model, words, answer_tokens=1, stream=True)
        try:
            replies[endpoint] = await engine.generate(endpoint, body, timeout_seconds, on_token)
        except EngineError as error:
            if error.status is None or not unsupported(error.status, error.body):
                raise
            notes += (f"{endpoint} is not served: {error}",)
    if not replies:
        raise EngineError("; ".join(notes), 404)
    served = Served(model, max_model_len, _costs(replies, words), notes)
    return Learned(served, next(iter(replies.values())).first_token)


def _choose(
    models: list[Mapping[str, Any]], served_name: str
) -> tuple[str, int | None, tuple[str, ...]]:
    if not models:
        raise EngineError("/v1/models: the list is empty", 200)
    by_name = {str(model.get("id")): model for model in models}
    notes: tuple[str, ...] = ()
    name = served_name
    if name not in by_name:
        name = next(iter(by_name))
        notes = (f"the engine serves {name!r}, not {served_name!r}",)
    length = by_name[name].get("max_model_len")
    return name, length if isinstance(length, int) else None, notes


def _costs(replies: Mapping[Endpoint, Reply], words: int) -> dict[Endpoint, TokenCost]:
    """From the prompt sizes that the engine counted; a word a token when it did not tell."""
    tokens = {name: reply.answer.prompt_tokens or words for name, reply in replies.items()}
    per_word = min(tokens.values()) / words
    return {name: TokenCost(per_word, count - per_word * words) for name, count in tokens.items()}
