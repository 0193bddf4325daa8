"""Answers that an engine must give: what is asked, how the answer is read and checked. Pure.

Shapes as vLLM answers them: a chat choice has `message` and `logprobs.content[].{token,logprob}`,
a completion choice has `text` and `logprobs.{tokens,token_logprobs}`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from warmpod.api.warmup import Golden
from warmpod.sidecar.answers import excerpt
from warmpod.sidecar.planning import API_ENDPOINTS, Endpoint

# Characters of a text that a message shows, from where it differs and before.
SHOWN_AFTER = 40
SHOWN_BEFORE = 20

# What a message shows as text; a reasoning model may spend every token on reasoning.
MESSAGE_FIELDS = ("content", "reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    """An answer at temperature 0. `tokens` is empty when the engine sent none. `logprobs` has one
    for each token, None where it is missing or no number."""

    text: str
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float | None, ...] = ()


def request_for(golden: Golden, model: str) -> tuple[Endpoint, dict[str, Any]]:
    """The endpoint and the body of the request that an item describes."""
    endpoint = API_ENDPOINTS[golden.endpoint]
    logprobs = golden.tokens is not None or golden.logprobs is not None
    return endpoint, body_for(endpoint, model, golden.prompt, golden.max_tokens, logprobs)


def body_for(
    endpoint: Endpoint, model: str, prompt: str, max_tokens: int, logprobs: bool = True
) -> dict[str, Any]:
    """A request for the most probable answer, with the tokens and their log probabilities if
    `logprobs`. An engine that was started with --max-logprobs 0 refuses those."""
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "temperature": 0}
    if endpoint == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    if logprobs:
        body["logprobs"] = True if endpoint == "chat" else 1
    return body


def read_answer(endpoint: Endpoint, body: Any) -> GoldenAnswer:
    """Read the JSON of an answer with status 200. Raises ValueError when it is none."""
    try:
        choice = body["choices"][0]
        text = _message_text(choice["message"]) if endpoint == "chat" else choice["text"]
        tokens, logprobs = _logprobs(endpoint, choice.get("logprobs") or {})
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        shown = excerpt(json.dumps(body, default=repr))
        raise ValueError(f"no {endpoint} answer: {shown}") from error
    if not isinstance(text, str):
        raise ValueError(f"the answer's text is no text: {excerpt(repr(text))}")
    return GoldenAnswer(text, tokens, logprobs)


def _message_text(message: Mapping[str, Any]) -> str:
    return next((message[name] for name in MESSAGE_FIELDS if message.get(name)), "")


def _logprobs(
    endpoint: Endpoint, logprobs: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[float | None, ...]]:
    if endpoint == "chat":
        pairs = [(each["token"], each.get("logprob")) for each in logprobs.get("content") or []]
    else:
        tokens, values = logprobs.get("tokens") or [], logprobs.get("token_logprobs") or []
        pairs = list(zip_longest(tokens, values[: len(tokens)]))
    return tuple(str(token) for token, _ in pairs), tuple(_number(value) for _, value in pairs)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def check(golden: Golden, answer: GoldenAnswer) -> str:
    """What differs from the item, and where first; empty when nothing does."""
    difference = (
        _text_difference(golden.text or "", answer.text)
        or _token_difference(golden.tokens or (), answer.tokens)
        or _logprob_difference(
            golden.logprobs or (), answer.logprobs, Decimal(golden.logprob_tolerance)
        )
    )
    return f"golden {golden.name}: {difference}" if difference else ""


def _text_difference(expected: str, came: str) -> str:
    if came.startswith(expected):
        return ""
    at = first_difference(expected, came)
    if at == len(came):
        return f"expected {_shown(expected, at)}, but the text ends after {at} characters"
    return f"expected {_shown(expected, at)}, came {_shown(came, at)} at character {at + 1}"


def _token_difference(expected: Sequence[str], came: Sequence[str]) -> str:
    at = first_difference(expected, came)
    if at == len(expected):
        return ""
    if not came:
        return f"expected the token {quoted(expected[0])} first, but the answer shows no tokens"
    if at == len(came):
        return f"expected token {at + 1} {quoted(expected[at])}, but the answer ends before it"
    return f"expected token {at + 1} {quoted(expected[at])}, came {quoted(came[at])}"


def _logprob_difference(
    expected: Sequence[str], came: Sequence[float | None], tolerance: Decimal
) -> str:
    for number, (wanted, value) in enumerate(zip_longest(expected, came[: len(expected)]), start=1):
        what = f"expected {wanted} as log probability of token {number}"
        if value is None:
            return f"{what}, came none"
        # Not in floating point: a difference of just the tolerance is within it.
        if abs(Decimal(repr(value)) - Decimal(wanted)) > tolerance:
            return f"{what}, came {value:.4f}, which is more than {tolerance} away"
    return ""


def first_difference(expected: Sequence[object], came: Sequence[object]) -> int:
    """Where the two part: the length of what they begin with alike."""
    pairs = zip(expected, came, strict=False)
    shorter = min(len(expected), len(came))
    return next((at for at, (one, other) in enumerate(pairs) if one != other), shorter)


def quoted(text: str) -> str:
    """So that spaces and line ends can be seen."""
    return json.dumps(text, ensure_ascii=False)


def _shown(text: str, at: int) -> str:
    start, end = max(0, at - SHOWN_BEFORE), at + SHOWN_AFTER
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return quoted(f"{before}{text[start:end]}{after}")
