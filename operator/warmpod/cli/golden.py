"""Ask a running engine for the answers that spec.warmup.golden will expect of the next ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import urllib3
import yaml
from pydantic import ValidationError

from warmpod.api.warmup import Golden
from warmpod.sidecar.answers import excerpt
from warmpod.sidecar.engine import PATHS
from warmpod.sidecar.golden import GoldenAnswer, body_for, check, read_answer
from warmpod.sidecar.planning import API_ENDPOINTS

Ask = Callable[[str, Mapping[str, Any] | None], Any]
"""Takes a path, and a body for a POST; gives the JSON of the answer."""

EndpointName = Literal["chat", "completion"]

# Seconds for one answer; a cold or busy engine takes its time.
ANSWER_SECONDS = 300

LONGEST_NAME = 40


class RecordError(Exception):
    """One line that says why nothing was recorded and what helps."""


def engine_at(url: str, api_key: str | None) -> Ask:
    """Ask the engine at a URL. What it returns raises RecordError."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    base_url = url.rstrip("/")
    pool = urllib3.PoolManager(retries=False, timeout=ANSWER_SECONDS, headers=headers)

    def ask(path: str, body: Mapping[str, Any] | None) -> Any:
        try:
            answer = pool.request("GET" if body is None else "POST", base_url + path, json=body)
            text = answer.data.decode(errors="replace")
            if answer.status == 401:
                raise RecordError(f"{base_url}{path}: 401: give the engine's key with --api-key")
            if answer.status != 200:
                raise RecordError(f"{base_url}{path}: {answer.status} {excerpt(text)}")
            return json.loads(text)
        except urllib3.exceptions.HTTPError as error:
            raise RecordError(f"no answer from {url}: {error}") from error
        except json.JSONDecodeError as error:
            raise RecordError(f"{base_url}{path}: not JSON: {excerpt(text)}") from error

    return ask


def served_model(ask: Ask) -> str:
    """The first model that an engine serves. Raises RecordError."""
    listed = ask("/v1/models", None)
    try:
        return str(listed["data"][0]["id"])
    except (LookupError, TypeError):
        raise RecordError("the engine lists no model; name one with --model") from None


def wanted(prompts: Iterable[str], endpoint: EndpointName, max_tokens: int) -> list[Golden]:
    """Items without an answer yet. Raises RecordError for a prompt that no item can hold."""
    items: list[Golden] = []
    for prompt in prompts:
        name = _name(prompt, {item.name for item in items})
        where: Literal["Chat", "Completion"] = "Chat" if endpoint == "chat" else "Completion"
        try:
            items.append(Golden(name=name, endpoint=where, prompt=prompt, max_tokens=max_tokens))
        except ValidationError as error:
            raise _unfit(name, error) from error
    return items


def record_all(
    ask: Ask, model: str, items: Iterable[Golden], logprobs: bool
) -> tuple[list[Golden], list[str]]:
    """The items with their answers, and why others have none."""
    recorded: list[Golden] = []
    refused: list[str] = []
    for item in items:
        try:
            recorded.append(record(ask, model, item, logprobs))
        except RecordError as error:
            refused.append(str(error))
    return recorded, refused


def record(ask: Ask, model: str, item: Golden, logprobs: bool) -> Golden:
    """The item with the engine's answer to it, asked for twice. Raises RecordError."""
    endpoint = API_ENDPOINTS[item.endpoint]
    body = body_for(endpoint, model, item.prompt, item.max_tokens, logprobs)
    try:
        first, second = (read_answer(endpoint, ask(PATHS[endpoint], body)) for _ in range(2))
    except ValueError as error:
        raise RecordError(f"golden {item.name}: {error}") from error
    golden, other = (_with_answer(item, answer, logprobs) for answer in (first, second))
    if difference := check(golden, second) or check(other, first):
        raise RecordError(
            f"not recorded, because two answers at temperature 0 differ: {difference}"
        )
    return golden


def _with_answer(item: Golden, answer: GoldenAnswer, logprobs: bool) -> Golden:
    """Raises RecordError."""
    if not answer.text and not answer.tokens:
        raise RecordError(f"golden {item.name}: the answer is empty; take another prompt")
    found: dict[str, Any] = {"text": answer.text or None}
    if logprobs:
        found |= {"tokens": answer.tokens, "logprobs": _as_decimals(item.name, answer)}
    try:
        return Golden(**{**item.model_dump(), **found})
    except ValidationError as error:
        raise _unfit(item.name, error) from error


def _as_decimals(name: str, answer: GoldenAnswer) -> tuple[str, ...]:
    """Raises RecordError."""
    values = [value for value in answer.logprobs if value is not None]
    if not values or len(values) < len(answer.tokens):
        raise RecordError(
            f"golden {name}: the answer lacks log probabilities; leave them out with --no-logprobs"
        )
    return tuple(f"{value + 0.0:.4f}" for value in values)


def _unfit(name: str, error: ValidationError) -> RecordError:
    first = error.errors()[0]
    return RecordError(f"golden {name}: {first['loc'][0]}: {first['msg']}")


def as_yaml(items: Iterable[Golden]) -> str:
    """The block to put into spec.warmup."""
    documents = [
        item.model_dump(mode="json", by_alias=True, exclude_defaults=True) for item in items
    ]
    return yaml.safe_dump({"golden": documents}, sort_keys=False, allow_unicode=True, width=100)


def _name(prompt: str, taken: set[str]) -> str:
    """From the first words of the prompt; unlike all that are taken."""
    words = re.sub(r"[^a-z0-9]+", "-", prompt.lower()).strip("-")
    name = words[: LONGEST_NAME - 4].strip("-") or "prompt"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)
