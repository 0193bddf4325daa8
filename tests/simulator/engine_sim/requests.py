"""Reads and checks the body of a completion or chat request, as vLLM would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine_sim.settings import Arguments

CHAT_TEMPLATE_TOKENS = 8


class RequestError(Exception):
    """A request that vLLM refuses, with its HTTP status and error type."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True)
class GenerationRequest:
    """One request for tokens, chat or not."""

    endpoint: str  # "chat" or "completions"
    model: str
    prompt: str
    prompt_tokens: int
    max_tokens: int
    features: frozenset[str]
    count: int
    stream: bool
    include_usage: bool
    ignore_eos: bool
    logprobs: bool
    seed: str


def read_request(endpoint: str, body: Mapping[str, Any], arguments: Arguments) -> GenerationRequest:
    """Turn a JSON body into a request; raises RequestError for what vLLM refuses."""
    model = body.get("model") or arguments.served_names[0]
    if model not in arguments.served_names:
        raise RequestError(404, "NotFoundError", f"The model `{model}` does not exist.")
    prompt, prompt_tokens = _prompt(endpoint, body)
    room = arguments.max_model_len - prompt_tokens
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    max_tokens = wanted or (16 if endpoint == "completions" else room)
    if room < 1 or max_tokens > room:
        raise RequestError(
            400,
            "BadRequestError",
            f"This model's maximum context length is {arguments.max_model_len} tokens. However, "
            f"you requested {max_tokens} output tokens and your prompt contains {prompt_tokens} "
            "input tokens. Please reduce the length of the input prompt or the number of "
            "requested output tokens.",
        )
    return GenerationRequest(
        endpoint=endpoint,
        model=model,
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        features=_features(body),
        count=body.get("n") or 1,
        stream=bool(body.get("stream")),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        ignore_eos=bool(body.get("ignore_eos")),
        logprobs=body.get("logprobs") not in (None, False),
        seed=_seed(body),
    )


def _prompt(endpoint: str, body: Mapping[str, Any]) -> tuple[str, int]:
    """The prompt as text, and its number of tokens: one a word, or one an id."""
    if endpoint == "chat":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RequestError(400, "BadRequestError", "messages: Field required")
        text = "\n".join(_content(message) for message in messages)
        return text, len(text.split()) + CHAT_TEMPLATE_TOKENS
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return json.dumps(prompt), len(prompt)
    if isinstance(prompt, str) and prompt:
        return prompt, max(1, len(prompt.split()))
    raise RequestError(400, "BadRequestError", "prompt: a text or a list of token ids is required")


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def _features(body: Mapping[str, Any]) -> frozenset[str]:
    """The features that need kernels of their own."""
    checks = {
        "sampling": (body.get("temperature", 1.0) or 0) > 0,
        "penalties": any(body.get(name) for name in ("presence_penalty", "frequency_penalty"))
        or body.get("repetition_penalty", 1.0) != 1.0,
        "logprobs": body.get("logprobs") not in (None, False),
        "grammar": body.get("response_format") is not None
        or body.get("structured_outputs") is not None,
        "tools": bool(body.get("tools")),
    }
    return frozenset(name for name, used in checks.items() if used)


def _seed(body: Mapping[str, Any]) -> str:
    """What makes two answers to one prompt differ: nothing at temperature 0."""
    temperature = body.get("temperature", 1.0)
    return "" if temperature == 0 else f"{temperature}/{body.get('seed')}"
