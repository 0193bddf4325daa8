"""Finds out what a boot serves: by its lists of models and routes, and by one small request for
each endpoint and each feature that it may refuse."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from warmpod.api.warmup import Warmup
from warmpod.engine import EngineTraits
from warmpod.sidecar.engine import PATHS, Engine, EngineError, Reply
from warmpod.sidecar.planning import (
    Bucket,
    Endpoint,
    Served,
    TokenCost,
    candidates,
    plain_body,
    waves_for,
)
from warmpod.sidecar.planning.make import is_skipped
from warmpod.sidecar.planning.model import ANSWER_TOKENS, GENERATING
from warmpod.sidecar.planning.text import WORDS

PROBE_WORDS = 8

# More than any word of ours has.
TOKENS_A_WORD = 16

# Completion first: without a chat template around it, its cost is that of the words alone.
PROBE_ORDER: tuple[Endpoint, ...] = (
    "completion",
    "chat",
    "embeddings",
    "classify",
    "pooling",
    "score",
    "rerank",
    "transcription",
)

# Before a feature that the engine answers with 500 counts as broken rather than unlucky.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Learned:
    """`first_token` is that of the very first request, in seconds."""

    served: Served
    first_token: float


@dataclass(slots=True)
class _Probe:
    """Asks the engine; `first_token` is that of its first answer."""

    engine: Engine
    timeout_seconds: float
    on_token: Callable[[], None]
    first_token: float | None = field(default=None, init=False)

    async def ask(self, endpoint: Endpoint, body: Mapping[str, Any]) -> Reply:
        reply = await self.engine.generate(endpoint, body, self.timeout_seconds, self.on_token)
        if self.first_token is None:
            self.first_token = reply.first_token
        return reply


async def learn(
    engine: Engine,
    served_name: str,
    timeout_seconds: float,
    on_token: Callable[[], None],
    traits: EngineTraits,
    warmup: Warmup,
    trying: Callable[[str], None] = lambda name: None,
) -> Learned:
    """Raises EngineError when nothing can be learned, or when the engine answers a request that it
    does not refuse with an error. What `warmup.skip` names is not asked for.
    `trying` is told the name of each feature before it is asked for."""
    probe = _Probe(engine, timeout_seconds, on_token)
    served = replace(_choose(await engine.models(), served_name, traits), traits=traits)
    served = await _endpoints(probe, served, warmup.skip)
    served = replace(served, token_ids=await _token_ids(engine, served))
    served = await _answer_length(probe, served)
    served = await _features(probe, served, candidates(served, warmup), trying)
    if probe.first_token is None:
        raise EngineError("; ".join(served.notes), 404)
    return Learned(served, probe.first_token)


async def _endpoints(probe: _Probe, served: Served, skip: Iterable[str]) -> Served:
    """The endpoints that answer; of those that the list of routes does not have, none is asked."""
    routes = await probe.engine.routes()
    words = PROBE_WORDS
    if served.max_model_len is not None:
        words = max(1, min(PROBE_WORDS, served.max_model_len // TOKENS_A_WORD))
    replies: dict[Endpoint, Reply] = {}
    notes = _missing_routes(routes)
    for endpoint in _asked(routes, skip):
        body = plain_body(endpoint, served.model, words, answer_tokens=1, stream=True)
        try:
            replies[endpoint] = await probe.ask(endpoint, body)
        except EngineError as error:
            if error.status is None or not unsupported(error.status, error.body):
                raise
            if routes is not None or endpoint in GENERATING:
                notes.append(f"{endpoint} is not served: {error}")
    if not replies:
        raise EngineError("; ".join(notes) or "no endpoint that can be exercised is served", 404)
    return replace(served, costs=_costs(replies, words), notes=(*served.notes, *notes))


def _asked(routes: frozenset[str] | None, skip: Iterable[str]) -> list[Endpoint]:
    """All, where spec.warmup.skip leaves none: the plan plays the first of them."""
    there = [endpoint for endpoint in PROBE_ORDER if _has(routes, endpoint)]
    return [endpoint for endpoint in there if not is_skipped(f"{endpoint}/", skip)] or there


def _has(routes: frozenset[str] | None, endpoint: Endpoint) -> bool:
    return routes is None or PATHS[endpoint] in routes


def _missing_routes(routes: frozenset[str] | None) -> list[str]:
    """About an engine that generates in one of two ways only; no engine has all endpoints."""
    missing = [endpoint for endpoint in GENERATING if not _has(routes, endpoint)]
    if len(missing) != 1:
        return []
    return [f"{missing[0]} is not served: the engine has no route {PATHS[missing[0]]}"]


async def _token_ids(engine: Engine, served: Served) -> tuple[int, ...]:
    """Of as many words as the shortest contexts hold, too."""
    context = served.max_model_len or len(WORDS) * TOKENS_A_WORD
    words = WORDS[: max(1, context // TOKENS_A_WORD)]
    return await engine.token_ids(served.model, " ".join(words))


async def _answer_length(probe: _Probe, served: Served) -> Served:
    """Some engines give no more than one token."""
    endpoint = next((e for e in GENERATING if e in served.costs), None)
    if endpoint is None or (served.max_model_len or ANSWER_TOKENS * 4) < ANSWER_TOKENS * 4:
        return served
    body = plain_body(endpoint, served.model, 1, answer_tokens=ANSWER_TOKENS, stream=True)
    try:
        await probe.ask(endpoint, body)
    except EngineError as error:
        if not error.refused:
            raise
        note = f"answers are cut to one token: the engine refuses {ANSWER_TOKENS}: {error}"
        return replace(served, answer_tokens=1, notes=(*served.notes, note))
    return served


async def _features(
    probe: _Probe, served: Served, tried: Iterable[Bucket], trying: Callable[[str], None]
) -> Served:
    features: set[str] = set()
    notes: list[str] = []
    no_images = False
    for bucket in tried:
        shows_image = bucket.waves[-1][0].image is not None
        if shows_image and no_images:
            continue  # they come smallest first
        trying(bucket.name)
        missing = await _missing(probe, bucket)
        if missing is None:
            features.add(bucket.name)
        else:
            notes.append(f"{bucket.name} is left out: {missing}")
            no_images |= shows_image
    return replace(served, features=frozenset(features), notes=(*served.notes, *notes))


async def _missing(probe: _Probe, bucket: Bucket) -> EngineError | None:
    """Why the engine does not have a feature: it refuses it, or always breaks on it, for users as
    for us. Raises EngineError for what may be otherwise later."""
    for attempt in range(1, TRIES + 1):
        try:
            await probe.ask(bucket.endpoint, waves_for(bucket)[-1][0])
        except EngineError as error:
            if error.refused or (error.status == 500 and attempt == TRIES):
                return error
            if error.status != 500:
                raise
        else:
            return None
    raise AssertionError("the last attempt decides")


def _choose(models: list[Mapping[str, Any]], served_name: str, traits: EngineTraits) -> Served:
    """The model by its configured name, and the adapters: vLLM lists other names of the model, of
    the same root, and adapters, which have a parent, alike."""
    if not models:
        raise EngineError("/v1/models: the list is empty", 200)
    by_name = {str(model.get("id")): model for model in models}
    notes: tuple[str, ...] = ()
    name = served_name
    if name not in by_name:
        name = next(iter(by_name))
        notes = (f"the engine serves {name!r}, not {served_name!r}",)
    chosen = by_name[name]
    length = chosen.get("max_model_len")
    adapters = adapters_of(models, name)
    context = length if isinstance(length, int) else traits.max_model_len
    return Served(name, context, {}, notes, adapters)


def adapters_of(models: Sequence[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    """The adapters of a model among all that an engine lists."""
    base = next((model for model in models if model.get("id") == name), {})
    return tuple(str(model.get("id")) for model in models if _is_adapter(model, base))


def _is_adapter(model: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    if model is base:
        return False
    roots = model.get("root"), base.get("root")
    return bool(model.get("parent")) or (all(roots) and roots[0] != roots[1])


def _costs(replies: Mapping[Endpoint, Reply], words: int) -> dict[Endpoint, TokenCost]:
    """From the prompt sizes that the engine counted; a word a token when it did not tell."""
    sent = {name: words * (2 if name in ("score", "rerank") else 1) for name in replies}
    tokens = {name: reply.answer.prompt_tokens or sent[name] for name, reply in replies.items()}
    texts = [name for name in tokens if name != "transcription"]
    per_word = min((tokens[name] / sent[name] for name in texts), default=1.0)
    return {
        name: TokenCost(per_word, max(0.0, count - per_word * sent[name]))
        for name, count in tokens.items()
    }


def unsupported(status: int, body: str) -> bool:
    """Whether an answer says that the engine lacks the endpoint, rather than that it failed.

    Seen in vLLM: 400 for a model without a chat template, or with one that is longer than the
    context; 400, 404 or 501 for one that does not generate. 404 is also the answer for a wrong
    model name, which is a failure."""
    text = body.lower()
    if any(words in text for words in ("chat template", "not support", "maximum context length")):
        return status in (400, 404, 501)
    return status in (404, 405, 501) and "does not exist" not in text
