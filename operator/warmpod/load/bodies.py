"""Request bodies that an engine is measured with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warmpod.sidecar.planning import Endpoint

#: For bodies that set no bound: an answer must end.
ANSWER_TOKENS = 256

_SHOWN_BY: Mapping[str, Endpoint] = {"messages": "chat", "prompt": "completion"}


class BodyError(ValueError):
    """A line is no request for a generating engine; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Request:
    endpoint: Endpoint
    body: Mapping[str, Any]


def read(text: str, model: str) -> list[Request]:
    """OpenAI request bodies, one a line, for the model of this name. Raises BodyError."""
    found = [
        _request(number, line, model)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if not found:
        raise BodyError("there is no request: write OpenAI request bodies, one a line")
    return found


def _request(number: int, line: str, model: str) -> Request:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BodyError(f"line {number} is not JSON: {error}") from error
    shown = [endpoint for field, endpoint in _SHOWN_BY.items() if _has(body, field)]
    if not shown:
        raise BodyError(f"line {number} is no request body: it has none of {', '.join(_SHOWN_BY)}")
    bounded = body.get("max_tokens") or body.get("max_completion_tokens")
    return Request(
        shown[0],
        {
            **body,
            **({} if bounded else {"max_tokens": ANSWER_TOKENS}),
            "model": model,
            "stream": True,
            # The engine counts tokens; a chunk may hold several.
            "stream_options": {"include_usage": True},
        },
    )


def _has(body: object, field: str) -> bool:
    return isinstance(body, dict) and field in body
