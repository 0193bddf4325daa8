"""Requests of the user's own: from `spec.warmup.prompts` and from mounted ConfigMaps."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmpod.api.warmup import ConfigMapSource, WarmupPrompt
from warmpod.sidecar.planning.bodies import fixed_fields
from warmpod.sidecar.planning.model import (
    API_ENDPOINTS,
    GENERATING,
    USER,
    Ask,
    Bucket,
    Endpoint,
    Served,
    bucket_of,
)
from warmpod.sidecar.planning.sizes import Sizes

# Of files; a ConfigMap may hold thousands of lines, and each is played in each round.
MOST_PROMPTS = 128

# About one key: anything may have a name that ends in .jsonl.
MOST_NOTES = 32

# For texts, and for bodies that set no bound: a round must end.
ANSWER_TOKENS = 16

_SHOWN_BY: Sequence[tuple[str, tuple[Endpoint, ...]]] = (
    ("messages", ("chat",)),
    ("prompt", ("completion",)),
    ("documents", ("rerank",)),
    ("text_1", ("score",)),
    ("input", ("embeddings", "classify", "pooling")),
)
_FOR_TEXT: tuple[Endpoint, ...] = ("chat", "completion", "embeddings", "classify", "pooling")


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """A text or a body, never both."""

    name: str
    text: str | None = None
    body: Mapping[str, Any] | None = None
    endpoint: Endpoint | None = None

    @property
    def bucket_name(self) -> str:
        """Changes with the content, so that a changed prompt is a new bucket."""
        content = json.dumps([self.endpoint, self.text, self.body], sort_keys=True)
        return f"{USER}{self.name}#{hashlib.sha256(content.encode()).hexdigest()[:6]}"


def inline_prompts(prompts: Iterable[WarmupPrompt]) -> list[UserPrompt]:
    return [
        UserPrompt(
            prompt.name,
            prompt.text,
            prompt.body,
            API_ENDPOINTS[prompt.endpoint] if prompt.endpoint else None,
        )
        for prompt in prompts
    ]


def read_prompts(
    folder: Path, sources: Iterable[ConfigMapSource]
) -> tuple[list[UserPrompt], tuple[str, ...]]:
    """The prompts of all ConfigMaps that are mounted below the folder, and what is wrong with the
    others. A ConfigMap that is not there yet is none of these: it may come later."""
    prompts: list[UserPrompt] = []
    notes: list[str] = []
    for source in sources:
        for key in _keys(folder / source.config_map):
            where = f"ConfigMap {source.config_map}, key {key.name}"
            name = f"{source.config_map}/{key.name}"
            try:
                text = key.read_text()
            except (OSError, ValueError) as error:
                notes.append(f"{where} is left out: {error}")
                continue
            found, wrong = prompts_of(name, text, where)
            prompts += found
            notes += wrong
    if len(prompts) > MOST_PROMPTS:
        notes.append(
            f"of {len(prompts)} prompts in ConfigMaps (spec.warmup.promptsFrom), the first "
            f"{MOST_PROMPTS} are played"
        )
    return prompts[:MOST_PROMPTS], tuple(notes)


def prompts_of(name: str, text: str, where: str) -> tuple[list[UserPrompt], list[str]]:
    """The prompts of one key: one text, or bodies, one a line, when its name ends in .jsonl."""
    if not text.strip():
        return [], [f"{where} is empty"]
    if not name.endswith(".jsonl"):
        return [UserPrompt(name, text=text)], []
    prompts: list[UserPrompt] = []
    notes: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        body, wrong = _body_of(line)
        if body is None:
            notes.append(f"{where}, line {number} is left out: {wrong}")
            if len(notes) == MOST_NOTES:
                return prompts, [*notes, f"{where}: what follows is not looked at"]
        else:
            prompts.append(UserPrompt(f"{name}:{number}", body=body))
    return prompts, notes


def user_buckets(
    served: Served, prompts: Iterable[UserPrompt]
) -> tuple[list[Bucket], tuple[str, ...]]:
    """A bucket for each prompt that the engine has an endpoint for, and notes about the others."""
    buckets: list[Bucket] = []
    notes: list[str] = []
    for prompt in prompts:
        endpoint, wrong = _endpoint_of(served, prompt)
        if endpoint is None:
            notes.append(f"{USER}{prompt.name} is left out: {wrong}")
            continue
        if prompt.text is not None and not _holds(served, endpoint, prompt.text):
            notes.append(
                f"{USER}{prompt.name} is left out: it does not fit into the engine's context "
                f"length, {served.max_model_len}"
            )
            continue
        body = _complete_body(served, endpoint, prompt)
        ask = Ask(body, prompt_tokens=_tokens(body), answer_tokens=_answer_tokens(endpoint, body))
        buckets.append(bucket_of(prompt.bucket_name, endpoint, [[ask]], "a request of your own"))
    return buckets, tuple(notes)


def _keys(folder: Path) -> Iterator[Path]:
    """The kubelet keeps the content in hidden folders and links the keys to it."""
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return
    yield from (path for path in found if not path.name.startswith(".") and path.is_file())


def _body_of(line: str) -> tuple[Mapping[str, Any] | None, str]:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        return None, f"not JSON: {error}"
    if not isinstance(body, dict):
        return None, "not a JSON object"
    if not any(field in body for field, _ in _SHOWN_BY):
        return None, f"no request body: it has none of {', '.join(f for f, _ in _SHOWN_BY)}"
    return body, ""


def _endpoint_of(served: Served, prompt: UserPrompt) -> tuple[Endpoint | None, str]:
    """Where it goes; None, with the reason, when the engine does not have that."""
    if prompt.endpoint is not None:
        fitting: tuple[Endpoint, ...] = (prompt.endpoint,)
    elif prompt.body is None:
        fitting = _FOR_TEXT
    else:
        body = prompt.body
        fitting = next((ends for field, ends in _SHOWN_BY if field in body), ())
    if not fitting:
        fields = ", ".join(field for field, _ in _SHOWN_BY)
        return None, f"its body has none of the fields {fields}"
    for endpoint in fitting:
        if endpoint in served.costs:
            return endpoint, ""
    return None, f"the engine does not serve {' or '.join(fitting)}"


def _holds(served: Served, endpoint: Endpoint, text: str) -> bool:
    sizes = Sizes(served, endpoint)
    return sizes.holds(len(text.split()), sizes.answer(ANSWER_TOKENS))


def _complete_body(served: Served, endpoint: Endpoint, prompt: UserPrompt) -> dict[str, Any]:
    if prompt.body is None:
        field = {"completion": "prompt", "chat": "messages"}.get(endpoint, "input")
        message = [{"role": "user", "content": prompt.text}]
        answer = Sizes(served, endpoint).answer(ANSWER_TOKENS)
        fixed = fixed_fields(endpoint, served.model, answer, stream=True)
        return fixed | {field: message if endpoint == "chat" else prompt.text}
    body = dict(prompt.body)
    if body.get("model") not in served.adapters:
        body["model"] = served.model
    if endpoint in GENERATING and not (body.get("max_tokens") or body.get("max_completion_tokens")):
        body["max_tokens"] = Sizes(served, endpoint).answer(ANSWER_TOKENS)
    return body


def _tokens(body: Mapping[str, Any]) -> int:
    """About four characters each, as texts in English have."""
    return max(1, len(json.dumps(body, ensure_ascii=False)) // 4)


def _answer_tokens(endpoint: Endpoint, body: Mapping[str, Any]) -> int:
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    return wanted if endpoint in GENERATING and isinstance(wanted, int) else 0
